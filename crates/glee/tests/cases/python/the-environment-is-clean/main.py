import os
def run():
    return sorted(k for k in os.environ if k not in ("LC_CTYPE",))
