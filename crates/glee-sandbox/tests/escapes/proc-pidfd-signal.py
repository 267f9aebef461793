fd=syscall(434, int(E['VICTIM']), 0); syscall(424, fd, 0, 0, 0)
