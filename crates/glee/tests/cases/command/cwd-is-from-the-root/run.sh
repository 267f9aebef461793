#!/bin/sh
cat here.txt; basename "$PWD"
