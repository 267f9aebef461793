kids=[]
for _ in range(4):
    p=os.fork()
    if p==0:
        t=time.process_time()
        while time.process_time()-t < 0.9: pass
        os._exit(0)
    kids.append(p)
assert all(os.waitpid(p,0)[1]==0 for p in kids)
