#!/bin/sh
echo ran >ran
