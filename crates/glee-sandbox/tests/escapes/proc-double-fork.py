# effect: process
if os.fork()==0:
    os.setsid()
    if os.fork()==0: os.execvp('sleep',['sleep',E['SLEEP']])
    os._exit(0)
time.sleep(0.2)
