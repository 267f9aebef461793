#!/bin/sh
sleep 1
echo "the job failed" >&2
exit 1
