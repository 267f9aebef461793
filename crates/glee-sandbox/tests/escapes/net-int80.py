# void: maybe
m=mmap.mmap(-1,4096,prot=7); m.write(bytes([0xb8,20,0,0,0, 0xcd,0x80, 0xc3]))
f=ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m))); assert f() > 0
