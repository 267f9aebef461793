# void: unprivileged
syscall(430, b'tmpfs', 0)
