hit=0
for pid in range(1,70000):
    if pid not in (os.getpid(),1):
        try: os.kill(pid,0); hit+=1; break
        except OSError: pass
assert hit
