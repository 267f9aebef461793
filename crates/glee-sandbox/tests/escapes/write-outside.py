open(E['SECRET_FILE'],'a').write('x')
