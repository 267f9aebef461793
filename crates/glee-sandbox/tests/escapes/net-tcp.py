socket.create_connection(('127.0.0.1', int(E['TCP'])), 2)
