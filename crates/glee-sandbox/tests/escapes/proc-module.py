# void: unprivileged maybe
try: syscall(313, os.open('/dev/null', os.O_RDONLY), b'', 0)
except OSError as e: assert e.errno not in (errno.EPERM, errno.ENOSYS)
