fd=syscall(294,0); syscall(254, fd, E['SECRET_FILE'].encode(), 0xfff)
