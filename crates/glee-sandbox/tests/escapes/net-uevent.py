socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15).bind((0,1))
