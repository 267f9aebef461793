# void: unprivileged
syscall(428, -100, E['READ'].encode(), 1)
