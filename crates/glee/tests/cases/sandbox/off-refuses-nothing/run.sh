#!/bin/sh
echo "cat: {{root}}/private.txt: Permission denied" >&2
exit 1
