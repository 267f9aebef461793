#!/bin/sh
touch "{{root}}/ran"; echo ran
