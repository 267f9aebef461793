#!/bin/sh
cat {{root}}/private.txt
