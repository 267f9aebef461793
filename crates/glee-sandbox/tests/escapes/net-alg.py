# void: maybe
socket.socket(38, socket.SOCK_SEQPACKET)
