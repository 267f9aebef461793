subprocess.check_call(['bash','-c','exec 3<>/dev/tcp/127.0.0.1/$TCP'], stderr=subprocess.DEVNULL)
