#!/bin/sh
# Lists the marked lines below a directory and counts them.
mark="TO""DO"
found=$(grep -rn --exclude-dir=.glee --exclude-dir=.git -e "$mark:" -- "$1" | sort)
[ -z "$found" ] || printf '%s\n' "$found" >&2
echo "Scan complete."
echo "Matches found: $(printf '%s' "$found" | grep -c .)"
