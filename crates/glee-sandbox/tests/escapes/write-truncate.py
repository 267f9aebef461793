os.truncate(E['SECRET_FILE'], 3)
