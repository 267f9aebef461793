# void: maybe
syscall(469, -100, (E['READ']+'/file').encode(), struct.pack('QIIIII', 0,0,0,0,0,0)[:24], 24, 0)
