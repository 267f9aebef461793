# void: unprivileged maybe
try: syscall(227, 0, struct.pack('qq', -1, -1))
except OSError as e: assert e.errno==errno.EINVAL
