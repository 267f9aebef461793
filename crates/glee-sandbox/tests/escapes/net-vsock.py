# void: maybe
socket.socket(40, socket.SOCK_STREAM)
