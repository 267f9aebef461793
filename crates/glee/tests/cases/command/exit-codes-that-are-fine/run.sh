#!/bin/sh
echo none found; exit 1
