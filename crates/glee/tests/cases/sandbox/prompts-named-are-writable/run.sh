#!/bin/sh
(echo 'name: p' > .glee/prompts/p.yml) 2>/dev/null; echo "exit $?"
