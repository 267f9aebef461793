#!/bin/sh
printf '  a\tb\n\nü'
