assert SECRET in str(os.environ)
