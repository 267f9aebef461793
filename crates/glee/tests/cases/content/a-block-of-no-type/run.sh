#!/bin/sh
cat <<'END'
{"content": [{"type": "video"}]}
END
