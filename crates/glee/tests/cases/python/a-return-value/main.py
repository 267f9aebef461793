def run(a, b="default"):
    return {"a": a + 1, "b": b}
