assert [f for f in os.listdir('/proc/self/fd') if int(f) > 3]
