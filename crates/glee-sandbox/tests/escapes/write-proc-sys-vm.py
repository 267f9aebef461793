# void: unprivileged
v=read('/proc/sys/vm/swappiness'); open('/proc/sys/vm/swappiness','w').write(v)
