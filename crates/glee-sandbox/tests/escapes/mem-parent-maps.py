assert read(f'/proc/{os.getppid()}/maps')
