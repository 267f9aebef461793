# void: unprivileged
socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
