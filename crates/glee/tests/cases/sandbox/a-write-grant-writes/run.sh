#!/bin/sh
echo x > {{root}}/out/new && cat {{root}}/out/new
