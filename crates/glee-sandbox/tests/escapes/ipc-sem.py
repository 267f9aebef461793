r=libc.semget(int(E['SEM_KEY']),0,0); assert r>=0
