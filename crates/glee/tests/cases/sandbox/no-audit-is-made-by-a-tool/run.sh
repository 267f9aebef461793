#!/bin/sh
mkdir -p {{root}}/.glee/approvals/x; echo "exit $?"; rm -rf {{root}}/.glee/audit; echo "exit $?"
