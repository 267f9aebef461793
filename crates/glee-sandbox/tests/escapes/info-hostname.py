# landlock: leaks: without a UTS namespace the name is visible
assert socket.gethostname()==E['HOST_NAME']
