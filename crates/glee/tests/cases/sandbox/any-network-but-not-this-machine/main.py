import socket
def run():
    made = socket.socket()
    try:
        made.connect(("127.0.0.1", {{port}}))
        return "connected"
    except OSError as err:
        return type(err).__name__
