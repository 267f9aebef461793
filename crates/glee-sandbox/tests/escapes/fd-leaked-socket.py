os.write(int(E['LEAKED_SOCKET']), b'x')
