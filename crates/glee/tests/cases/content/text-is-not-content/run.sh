#!/bin/sh
cat <<'END'
hello
END
