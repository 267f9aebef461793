how=struct.pack('QQQ', os.O_CREAT|os.O_WRONLY, 0o4755, 0)
syscall(437, -100, (E['WRITE']+'/suid5').encode(), how, len(how))
