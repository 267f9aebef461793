#!/bin/sh
echo x > {{root}}/.glee/tools/tool/tool.yml; echo "exit $?"; mkdir {{root}}/.glee/tools/evil; echo "exit $?"; mv {{root}}/.glee {{root}}/moved; echo "exit $?"
