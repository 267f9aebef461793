os.chdir(E['READ']); assert SECRET in read('../outside/secret')
