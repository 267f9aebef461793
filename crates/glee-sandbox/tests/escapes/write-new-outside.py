open(os.path.dirname(E['SECRET_FILE'])+'/new','w').write('x')
