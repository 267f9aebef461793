import os, sys
print('{"ok": true}')
def run():
    print("noise"); print("noise", file=sys.stderr)
    os.system("echo noise")
    os.write(1, b"raw noise")
    return [1]
