# void: maybe
socket.create_connection(('::1', int(E['TCP6'])), 2)
