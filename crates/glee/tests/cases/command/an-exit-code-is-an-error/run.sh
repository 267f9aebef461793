#!/bin/sh
echo out; echo oops >&2; exit 7
