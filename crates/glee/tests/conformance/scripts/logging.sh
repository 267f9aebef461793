#!/bin/sh
# Logs by the side channel of a running tool; the result goes to stdout, as ever.
log() { echo "{\"log\": \"$1\", \"level\": \"info\"}" >&"$GLEE_NOTES_FD"; }
log "Tool execution started"
sleep 0.05
log "Tool processing data"
sleep 0.05
log "Tool execution completed"
printf 'Three lines were logged'
