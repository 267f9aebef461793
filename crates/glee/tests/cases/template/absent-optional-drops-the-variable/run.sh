#!/bin/sh
echo "opt=${OPT-unset} kept=$KEPT"
