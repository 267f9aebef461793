# void: maybe
socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
