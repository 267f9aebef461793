os.utime(E['READ']+'/file', (1,1))
