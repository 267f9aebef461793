open(E['WRITE']+'/suid4','w').close(); syscall(452, -100, (E['WRITE']+'/suid4').encode(), 0o4755, 0)
