open(E['READ']+'/file','a').write('x')
