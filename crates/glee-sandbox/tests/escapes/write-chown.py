os.chown(E['READ']+'/file', os.getuid(), os.getgid())
