s=socket.socket(socket.AF_UNIX); s.connect(E['WRITE']+'/sock')
