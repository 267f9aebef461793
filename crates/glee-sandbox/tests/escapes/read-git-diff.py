assert SECRET in subprocess.run(['git','diff','--no-index','/dev/null',E['SECRET_FILE']], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
