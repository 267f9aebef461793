def run():
    return helper()

def helper():
    raise ValueError("no luck")
