# void: unprivileged
os.mknod(E['WRITE']+'/null', 0o20600, os.makedev(1,3)); open(E['WRITE']+'/null','w').write('x')
