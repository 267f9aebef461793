# void: unprivileged maybe
syscall(298, struct.pack('II',1,112)+bytes(104), 0, -1, -1, 0)
