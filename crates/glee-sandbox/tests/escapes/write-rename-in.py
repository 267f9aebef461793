open(E['WRITE']+'/r','w').write('x'); os.rename(E['WRITE']+'/r', os.path.dirname(E['SECRET_FILE'])+'/renamed')
