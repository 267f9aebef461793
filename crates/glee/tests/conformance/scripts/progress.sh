#!/bin/sh
for done in 0 50 100; do
  [ "$done" = 0 ] || sleep 0.05
  echo "{\"progress\": $done, \"total\": 100, \"message\": \"$done of 100\"}" >&"$GLEE_NOTES_FD"
done
printf 'Progress was reported'
