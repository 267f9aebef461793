def run():
    return object
