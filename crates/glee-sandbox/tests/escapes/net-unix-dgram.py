s=socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', E['WRITE']+'/dgram')
