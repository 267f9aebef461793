os.umask(0); os.open(E['WRITE']+'/suid2', os.O_CREAT|os.O_WRONLY, 0o4755); assert os.stat(E['WRITE']+'/suid2').st_mode & 0o4000
