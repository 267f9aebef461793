#!/bin/sh
cat <<'END'
{"a": 1}
END
