def run():
    return len(b"x" * (512 << 20))
