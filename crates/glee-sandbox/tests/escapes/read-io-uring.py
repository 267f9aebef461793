p=ctypes.create_string_buffer(120); syscall(425, 4, p)
