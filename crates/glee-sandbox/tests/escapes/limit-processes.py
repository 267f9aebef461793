# root: leaks: without a control group the processes of user 0 are counted only now and then
# landlock: leaks: without a namespace or a control group processes are counted only now and then
n=0
try:
    for _ in range(150):
        if os.fork()==0: time.sleep(20); os._exit(0)
        n+=1
finally:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if n<150: os._exit(1)
