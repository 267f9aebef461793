#!/bin/sh
echo '{"a": 1, "a": 2}'
