for pid in os.listdir('/proc'):
    if pid.isdigit():
        try:
            if SECRET in read(f'/proc/{pid}/root'+E['SECRET_FILE']): break
        except OSError: pass
else: raise OSError('no')
