#!/bin/sh
# Only the last 16 KiB are shown, and the cut would fall into the secret.
{ printf %s "$KEY"; head -c 16374 /dev/zero | tr '\0' a; } >&2
exit 1
