# landlock: leaks: without an IPC namespace System V objects are shared
assert len(open('/proc/sysvipc/shm').readlines()) > 1
