#!/bin/sh
cat {{root}}/link/secret.txt
