os.setxattr(E['READ']+'/file', 'user.x', b'x')
