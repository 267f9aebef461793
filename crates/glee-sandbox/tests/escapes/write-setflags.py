import fcntl
fd=os.open(E['READ']+'/file', os.O_RDONLY)
# Those it has stay: to take some of them away can fail on its own.
flags=struct.unpack('l', fcntl.ioctl(fd, 0x80086601, bytes(8)))[0]
fcntl.ioctl(fd, 0x40086602, struct.pack('l', flags | 0x80))
