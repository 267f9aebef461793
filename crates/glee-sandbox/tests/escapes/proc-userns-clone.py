pid=libc.syscall(56, 0x10000000|17, 0,0,0,0)
if pid==0: os._exit(0)
assert pid>0
