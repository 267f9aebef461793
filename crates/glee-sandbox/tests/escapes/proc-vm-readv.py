# void: maybe
b=ctypes.create_string_buffer(8); l=struct.pack('PN', ctypes.addressof(b), 8); assert syscall(310, int(E['VICTIM']), l, 1, struct.pack('PN', 0x400000, 8), 1, 0) >= 0
