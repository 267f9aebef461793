# void: unprivileged
try: syscall(169, 0, 0, 0, 0)
except OSError as e: assert e.errno==errno.EINVAL
