kids=[]
for _ in range(5):
    p=os.fork()
    if p==0:
        x=bytearray(180<<20); time.sleep(1.5); os._exit(0)
    kids.append(p)
assert all(os.waitpid(p,0)[1]==0 for p in kids)
