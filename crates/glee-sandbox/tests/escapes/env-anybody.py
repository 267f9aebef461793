found=False
for pid in os.listdir('/proc'):
    if pid.isdigit():
        try: found = found or SECRET in read(f'/proc/{pid}/environ')
        except OSError: pass
assert found
