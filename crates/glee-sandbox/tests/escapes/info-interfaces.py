# landlock: leaks: without a network namespace counters are visible
assert len(open('/proc/net/dev').readlines()) > 3
