assert SECRET in subprocess.check_output(['cat', E['SECRET_FILE']], stderr=subprocess.DEVNULL).decode()
