import os, time
def run():
    made = 0
    for _ in range(200):
        try:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            made += 1
        except BlockingIOError:
            break
    return made < 40
