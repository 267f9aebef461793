#!/bin/sh
echo x > {{root}}/src/new; echo "exit $?"
