# void: unprivileged
# landlock: leaks: /proc is the host's and user 0 reads it by user id
assert any(not l.startswith('0000000000000000') for l in open('/proc/kallsyms').read(4000).split('\n')[:20] if l)
