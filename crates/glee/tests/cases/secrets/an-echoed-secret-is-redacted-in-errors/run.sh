#!/bin/sh
echo "$KEY" >&2; exit 1
