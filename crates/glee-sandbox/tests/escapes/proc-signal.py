os.kill(int(E['VICTIM']), 0)
