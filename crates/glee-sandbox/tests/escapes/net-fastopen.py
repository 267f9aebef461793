s=socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', int(E['TCP'])))
