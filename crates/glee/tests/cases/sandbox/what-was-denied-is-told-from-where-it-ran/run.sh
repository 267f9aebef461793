#!/bin/sh
cat notes.txt
