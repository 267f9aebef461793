#!/bin/sh
cat >.glee/prompts/changing.yml <<END
name: changing
description: Be changed while the server runs; this is version $(date +%s%N)
messages:
  - {role: user, text: Nothing to do.}
END
printf 'The prompt was changed'
