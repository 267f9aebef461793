assert SECRET in read('/proc/self/root'+E['SECRET_FILE'])
