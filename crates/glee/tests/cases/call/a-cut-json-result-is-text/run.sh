#!/bin/sh
printf '[1, 2, 3, 4, 5]'
