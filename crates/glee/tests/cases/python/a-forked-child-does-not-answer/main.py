import os


def run():
    child = os.fork()
    if child == 0:
        return "child"
    os.waitpid(child, 0)
    return "parent"
