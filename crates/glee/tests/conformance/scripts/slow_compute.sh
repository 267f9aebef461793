#!/bin/sh
sleep "$1"
printf 'Computed %s in %s s' "$2" "$1"
