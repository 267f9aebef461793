#!/bin/sh
touch {{root}}/.glee/tools/tool/more.yml
