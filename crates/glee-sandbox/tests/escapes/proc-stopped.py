# effect: process
p=subprocess.Popen(['sleep',E['SLEEP']], start_new_session=True); os.kill(p.pid, signal.SIGSTOP); time.sleep(0.1)
