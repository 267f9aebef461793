# void: unprivileged
syscall(165, E['WRITE'].encode(), E['READ'].encode(), b'none', 4096, 0); syscall(166, E['READ'].encode(), 2)
