#!/bin/sh
cat <<'END'
{"content": [{"type": "image", "data": "?", "mimeType": "image/png"}]}
END
