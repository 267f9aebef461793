assert SECRET in read('/proc/'+E['VICTIM']+'/root'+E['SECRET_FILE'])
