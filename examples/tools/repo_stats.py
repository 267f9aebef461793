"""Counts the files below a directory and the lines in them, hidden ones left out."""

import os


def run(path):
    files = loc = 0
    for directory, subdirectories, names in os.walk(path):
        subdirectories[:] = [it for it in subdirectories if not it.startswith(".") and it != "__pycache__"]
        for name in names:
            files += 1
            with open(os.path.join(directory, name), "rb") as file:
                loc += sum(1 for _ in file)
    return {"files": files, "loc": loc}
