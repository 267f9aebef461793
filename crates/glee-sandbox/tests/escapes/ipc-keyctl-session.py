assert syscall(250, 0, -3, 1) > 0
