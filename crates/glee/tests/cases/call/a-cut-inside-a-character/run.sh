#!/bin/sh
printf 'aüüü'
