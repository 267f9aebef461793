os.chmod(E['READ']+'/file', 0o777)
