assert SECRET.encode() in subprocess.check_output(['tar','-cf','-',E['SECRET_FILE']], stderr=subprocess.DEVNULL)
