assert read('/etc/hostname')
