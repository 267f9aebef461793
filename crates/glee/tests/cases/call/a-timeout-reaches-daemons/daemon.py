#!/usr/bin/env python3
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.close(fd)
        time.sleep(1)
        open("survived", "w")
    os._exit(0)
time.sleep(60)
