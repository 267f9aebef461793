#!/bin/sh
echo oops
