# effect: /dev/shm/{MARK}
open('/dev/shm/'+E['MARK'],'w').write('x')
