#!/bin/sh
test -r /etc/passwd && echo readable
