# void: unprivileged maybe
os.open('/dev/mem', os.O_RDONLY)
