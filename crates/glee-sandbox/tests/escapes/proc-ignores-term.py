# effect: process
if os.fork()==0:
    for s in (1,2,3,15): signal.signal(s, signal.SIG_IGN)
    os.execvp('sleep',['sleep',E['SLEEP']])
time.sleep(0.2)
