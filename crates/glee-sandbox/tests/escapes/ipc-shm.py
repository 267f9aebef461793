p=libc.shmat; p.restype=ctypes.c_void_p; at=p(int(E['SHM_ID']),None,0); assert at!=ctypes.c_void_p(-1).value and SECRET.encode() in ctypes.string_at(at,100)
