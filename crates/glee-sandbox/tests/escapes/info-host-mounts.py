# landlock: leaks: without a mount namespace mounts are visible
assert any(l.split()[1]==E['HOST_MOUNT'] for l in open('/proc/self/mounts'))
