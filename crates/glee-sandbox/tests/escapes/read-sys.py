assert os.listdir('/sys/class')
