# void: unprivileged
v=read('/proc/sys/kernel/core_pattern'); open('/proc/sys/kernel/core_pattern','w').write(v)
