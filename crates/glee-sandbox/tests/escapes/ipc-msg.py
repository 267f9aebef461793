b=ctypes.create_string_buffer(208); r=libc.msgget(int(E['MSG_KEY']),0); assert r>=0
