fd=syscall(434, int(E['VICTIM']), 0); syscall(438, fd, 0, 0)
