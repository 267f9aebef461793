#!/bin/sh
echo so far; (sleep 1; touch survived) & sleep 60
