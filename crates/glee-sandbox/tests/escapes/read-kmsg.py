# void: unprivileged
os.open('/dev/kmsg', os.O_RDONLY)
