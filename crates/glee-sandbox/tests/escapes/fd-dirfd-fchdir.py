os.fchdir(int(E['LEAKED_DIR'])); assert SECRET in read('secret')
