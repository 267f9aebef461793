#!/bin/sh
cat /etc/passwd; echo "exit $?"
