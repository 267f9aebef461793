# void: unprivileged maybe
os.open('/proc/sysrq-trigger', os.O_WRONLY)
