os.fchmod(os.open(E['READ']+'/file', os.O_RDONLY), 0o777)
