s=socket.socket(socket.AF_UNIX); s.bind(E['WRITE']+'/mine'); s.listen()
