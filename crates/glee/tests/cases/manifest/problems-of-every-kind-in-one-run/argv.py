#!/usr/bin/env python3
import json, sys
print(json.dumps(sys.argv[1:]))
