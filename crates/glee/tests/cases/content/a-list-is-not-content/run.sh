#!/bin/sh
cat <<'END'
[{"type": "text", "text": "x"}]
END
