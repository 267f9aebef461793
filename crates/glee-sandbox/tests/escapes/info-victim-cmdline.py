# landlock: leaks: without a PID namespace processes are visible
assert 'sleep' in read('/proc/'+E['VICTIM']+'/cmdline')
