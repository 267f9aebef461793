# void: unprivileged maybe
def opens(f):
    for t in (1,2,3,5):
        try: socket.socket(f,t).close(); return True
        except OSError: pass
assert any(opens(f) for f in range(3,46) if f not in (10,16))
