assert SECRET in read('/proc/'+E['VICTIM']+'/cwd/secret')
