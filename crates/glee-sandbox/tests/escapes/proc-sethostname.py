# void: unprivileged
socket.sethostname(socket.gethostname())
