assert SECRET in read(f'/proc/{os.getppid()}/environ')
