os.link(E['READ']+'/file', E['WRITE']+'/rl'); open(E['WRITE']+'/rl','a').write('x')
