# void: maybe
assert subprocess.run(['curl','-s','-m','2','telnet://127.0.0.1:'+E['TCP']], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode in (0,28)
