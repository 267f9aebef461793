# void: unprivileged maybe
syscall(165, b'none', E['READ'].encode(), b'none', 32|4096, 0)
