fd=os.open(E['READ']+'/file', os.O_RDONLY); open(f'/proc/self/fd/{fd}','a').write('x')
