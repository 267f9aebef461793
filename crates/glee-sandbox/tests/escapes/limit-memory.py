x=bytearray(700<<20); assert len(x)
