#!/bin/sh
touch {{root}}/out/new.txt
