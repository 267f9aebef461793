# void: unprivileged
try: syscall(167, b'/no/such/file', 0)
except OSError as e: assert e.errno==errno.ENOENT
