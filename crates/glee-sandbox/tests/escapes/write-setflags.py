import fcntl
fd=os.open(E['READ']+'/file', os.O_RDONLY); fcntl.ioctl(fd, 0x40086602, struct.pack('l', 0x80))
