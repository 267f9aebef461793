# void: unprivileged
assert 'root' in read('/etc/shadow')
