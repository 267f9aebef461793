def run():
    kept = []
    try:
        while True:
            kept.append(open("/dev/null"))
    except OSError as err:
        return len(kept) < 64
