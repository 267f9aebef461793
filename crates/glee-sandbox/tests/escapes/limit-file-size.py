f=open(E['WRITE']+'/big2','wb'); b=bytes(1<<20)
for _ in range(40): f.write(b)
f.flush()
