#!/bin/sh
printf 0
