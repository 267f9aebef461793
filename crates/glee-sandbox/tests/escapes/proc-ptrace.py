syscall(101, 0x4206, int(E['VICTIM']), 0, 0)
