#!/bin/sh
ls -d /proc/[0-9]* | wc -l | grep -c "^[1-9]$"
