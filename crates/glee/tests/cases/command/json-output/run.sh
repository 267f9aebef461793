#!/bin/sh
echo '{"a": [1, 2.50, "x"]}'
