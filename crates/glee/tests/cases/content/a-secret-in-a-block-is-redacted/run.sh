#!/bin/sh
echo "{\"content\": [{\"type\": \"text\", \"text\": \"it is $KEY\"}]}"
