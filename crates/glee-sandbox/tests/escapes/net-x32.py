# void: maybe
assert syscall(0x40000000+39) > 0
