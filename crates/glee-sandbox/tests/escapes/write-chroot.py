# void: unprivileged
os.chroot(E['WRITE'])
