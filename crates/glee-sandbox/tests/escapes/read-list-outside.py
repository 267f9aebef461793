assert 'secret' in os.listdir(os.path.dirname(E['SECRET_FILE']))
