assert syscall(240, b'glee-escape-'+E['TEST_UID'].encode(), os.O_RDWR|os.O_CREAT, 0o600, 0) >= 0
