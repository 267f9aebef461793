f=open('/tmp/fill'+E['MARK'],'wb'); b=bytes(1<<20)
try:
    for _ in range(20): f.write(b)
    f.flush()
finally: os.unlink('/tmp/fill'+E['MARK'])
