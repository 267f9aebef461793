s=socket.socket(socket.AF_UNIX); s.connect('\0'+E['ABSTRACT'])
