# void: unprivileged
b=ctypes.create_string_buffer(4096); assert syscall(103, 3, b, 4096) > 0
