import fcntl
m,s=os.openpty()
if os.fork()==0:
    os.setsid(); fcntl.ioctl(s, 0x540E, 0)
    try: fcntl.ioctl(s, 0x5412, b'x')
    except OSError: os._exit(1)
    os._exit(0)
assert os.wait()[1]==0
