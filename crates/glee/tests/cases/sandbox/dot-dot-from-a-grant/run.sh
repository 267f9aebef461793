#!/bin/sh
cat {{root}}/src/../secret.txt; echo "exit $?"
