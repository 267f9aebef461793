assert 'outside' in os.listdir(os.path.dirname(E['READ']))
