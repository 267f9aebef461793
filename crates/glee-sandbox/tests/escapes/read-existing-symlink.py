assert SECRET in read(E['READ']+'/link-out')
