# root: leaks: without a control group the processes of user 0 are counted only now and then
# landlock: leaks: without a namespace or a control group processes are counted only now and then
import threading
for _ in range(150): threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
os._exit(0)
