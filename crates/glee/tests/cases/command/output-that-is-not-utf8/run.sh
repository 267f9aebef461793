#!/bin/sh
printf 'a\377b'
