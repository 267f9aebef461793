assert syscall(248, b'user', b'glee', b'x', 1, -3) > 0
