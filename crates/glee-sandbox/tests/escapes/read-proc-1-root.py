# void: unprivileged maybe
assert SECRET in read('/proc/1/root'+E['SECRET_FILE'])
