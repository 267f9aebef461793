def run():
    return "0123456789" * 100
