# effect: process
subprocess.Popen(['sleep',E['SLEEP']]); time.sleep(0.1)
