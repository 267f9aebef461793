os.kill(os.getppid(), 0) if os.getppid()>1 else os.kill(int(E['TEST_PID']), 0)
