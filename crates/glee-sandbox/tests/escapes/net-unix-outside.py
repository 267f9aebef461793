s=socket.socket(socket.AF_UNIX); s.connect(E['UNIX_OUTSIDE'])
