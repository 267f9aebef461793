# void: maybe
socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)
