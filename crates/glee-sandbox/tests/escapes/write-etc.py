# void: unprivileged
open('/etc/glee-mark','w').close(); os.unlink('/etc/glee-mark')
