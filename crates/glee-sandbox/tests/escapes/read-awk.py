assert SECRET in subprocess.check_output(['awk','{print}',E['SECRET_FILE']], stderr=subprocess.DEVNULL).decode()
