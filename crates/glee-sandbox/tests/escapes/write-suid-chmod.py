open(E['WRITE']+'/suid','w').close(); os.chmod(E['WRITE']+'/suid', 0o4755)
