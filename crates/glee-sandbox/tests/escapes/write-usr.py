# void: unprivileged
open('/usr/glee-mark','w').close(); os.unlink('/usr/glee-mark')
