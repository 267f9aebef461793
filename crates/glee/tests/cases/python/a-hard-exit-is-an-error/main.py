import os
def run():
    print("last words", flush=True)
    os._exit(3)
