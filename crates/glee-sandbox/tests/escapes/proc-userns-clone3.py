pid=libc.syscall(435, struct.pack('QQQQQQQQ', 0x10000000,0,0,0,17,0,0,0), 64)
if pid==0: os._exit(0)
assert pid>0
