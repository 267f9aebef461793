assert os.listdir('/sys/kernel')
