#!/bin/sh
env | cut -d= -f1 | grep -v -e "^_$" -e "^PWD$" -e "^SHLVL$" -e "^OLDPWD$" | sort
