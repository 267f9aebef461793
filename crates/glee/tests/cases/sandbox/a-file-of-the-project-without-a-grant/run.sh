#!/bin/sh
cat {{root}}/secret.txt; echo "exit $?"
