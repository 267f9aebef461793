#!/bin/sh
for level in debug info notice warning error critical alert emergency; do
  echo "{\"log\": \"a line\", \"level\": \"$level\"}" >&"$GLEE_NOTES_FD"
done
printf 'Eight lines were logged'
