#!/bin/sh
echo x > {{root}}/.glee/config.yml; echo "exit $?"; cat {{root}}/.glee/config.yml
