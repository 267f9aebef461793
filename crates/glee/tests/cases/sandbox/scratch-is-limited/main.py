def run():
    for n in range(64):
        with open(f"/tmp/{n}", "wb") as file:
            file.write(b"x" * (1 << 20))
