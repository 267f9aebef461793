open(E['READ']+'/new','w').write('x')
