# void: unprivileged
assert int([l for l in open('/proc/self/status') if l.startswith('CapEff')][0].split()[1],16)
