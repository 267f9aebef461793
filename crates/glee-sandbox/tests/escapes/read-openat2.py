how=struct.pack('QQQ', 0, 0, 0)
fd=syscall(437, -100, E['SECRET_FILE'].encode(), how, len(how)); assert SECRET in os.read(fd,100).decode()
