# landlock: leaks: without a PID namespace processes are visible
assert sum(p.isdigit() for p in os.listdir('/proc')) > 8
