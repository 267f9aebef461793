# void: unprivileged maybe
assert os.read(os.open('/proc/kcore', os.O_RDONLY), 64)
