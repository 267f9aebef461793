#!/bin/sh
sleep 600 & echo done
