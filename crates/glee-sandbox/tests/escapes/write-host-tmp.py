# effect: /tmp/{MARK}
open('/tmp/'+E['MARK'],'w').write('x')
