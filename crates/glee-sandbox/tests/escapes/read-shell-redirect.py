assert SECRET in subprocess.check_output(['sh','-c','read x < "$SECRET_FILE"; echo $x'], stderr=subprocess.DEVNULL).decode()
