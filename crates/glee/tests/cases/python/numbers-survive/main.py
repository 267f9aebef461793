def run(n, f):
    return [n, f, n + 1, str(n)]
