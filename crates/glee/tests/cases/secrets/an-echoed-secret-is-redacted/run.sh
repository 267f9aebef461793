#!/bin/sh
echo "$KEY"; printf %s "$KEY" | base64; printf %s "$KEY" | od -An -tx1 | tr -d " \n"; echo; printf "user:%s" "$KEY" | base64
