#!/bin/sh
echo x > {{root}}/.git/hooks/pre-commit; echo "exit $?"; echo x > {{root}}/.git/other && echo other
