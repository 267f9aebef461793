assert SECRET in subprocess.check_output(['find',E['SECRET_FILE'],'-exec','cat','{}',';'], stderr=subprocess.DEVNULL).decode()
