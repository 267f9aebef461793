fd=os.open('secret', os.O_RDONLY, dir_fd=int(E['LEAKED_DIR'])); assert SECRET in os.read(fd,100).decode()
