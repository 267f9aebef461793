#!/bin/sh
echo '{"a": 1}'
