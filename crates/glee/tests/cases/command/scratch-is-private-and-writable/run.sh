#!/bin/sh
test "$HOME" = "$TMPDIR" && echo x > "$TMPDIR/f" && cat "$TMPDIR/f"
