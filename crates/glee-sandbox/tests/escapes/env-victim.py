assert SECRET in read('/proc/'+E['VICTIM']+'/environ')
