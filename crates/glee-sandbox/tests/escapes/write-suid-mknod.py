os.umask(0); os.mknod(E['WRITE']+'/suid3', 0o104755); assert os.stat(E['WRITE']+'/suid3').st_mode & 0o4000
