assert SECRET in read('/dev/shm/'+E['POSIX_SHM'])
