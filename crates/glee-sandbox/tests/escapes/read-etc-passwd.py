assert 'root' in read('/etc/passwd')
