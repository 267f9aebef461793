# void: unprivileged
syscall(442, -100, E['WRITE'].encode(), 0, struct.pack('QQQQ',0,0,0,0), 32)
