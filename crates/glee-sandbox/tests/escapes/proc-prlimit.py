syscall(302, int(E['VICTIM']), 7, 0, ctypes.create_string_buffer(16))
