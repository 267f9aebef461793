raise RuntimeError("shadowed")
