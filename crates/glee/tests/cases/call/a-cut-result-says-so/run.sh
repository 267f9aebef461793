#!/bin/sh
printf 0123456789abcdef
