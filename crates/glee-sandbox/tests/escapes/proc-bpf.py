# void: unprivileged
syscall(321, 0, struct.pack('IIIII',2,4,4,1,0)+bytes(100), 120)
