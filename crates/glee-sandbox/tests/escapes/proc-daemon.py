# effect: process
subprocess.Popen(['sh','-c','setsid sleep '+E['SLEEP']+' </dev/null >/dev/null 2>&1 &'])
time.sleep(0.2)
