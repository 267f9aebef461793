# void: unprivileged maybe
dev=os.stat(E['SECRET_FILE']).st_dev
os.mknod(E['WRITE']+'/disk', 0o60600, dev); assert os.read(os.open(E['WRITE']+'/disk', os.O_RDONLY), 4096)
