#!/bin/sh
cat <<'END'
{"content": [{"type": "text", "text": "a dot"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}, {"type": "audio", "data": "AAA=", "mimeType": "audio/wav"}, {"type": "resource", "resource": {"uri": "x://y", "mimeType": "text/plain", "text": "inside"}}, {"type": "resource_link", "uri": "x://z", "name": "z"}], "structured": {"n": 1}}
END
