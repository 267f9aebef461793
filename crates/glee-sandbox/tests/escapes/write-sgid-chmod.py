open(E['WRITE']+'/sgid','w').close(); os.chmod(E['WRITE']+'/sgid', 0o2755)
