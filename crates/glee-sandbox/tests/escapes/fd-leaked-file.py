assert SECRET in os.read(int(E['LEAKED_FILE']), 100).decode()
