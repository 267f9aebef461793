os.open('/dev/ptmx', os.O_RDWR)
