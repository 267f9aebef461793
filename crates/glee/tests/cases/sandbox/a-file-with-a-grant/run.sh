#!/bin/sh
cat {{root}}/granted.txt
