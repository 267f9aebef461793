# void: unprivileged
m=os.stat('/usr/bin/env').st_mode & 0o7777; os.chmod('/usr/bin/env', m)
