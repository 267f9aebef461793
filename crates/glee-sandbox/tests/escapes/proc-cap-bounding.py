# landlock: leaks as user: only root can drop the bounding set, and no_new_privs makes it useless
assert int([l for l in open('/proc/self/status') if l.startswith('CapBnd')][0].split()[1],16)
