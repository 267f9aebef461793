os.mkdir('/tmp/d'+E['MARK'])
try:
    for i in range(3000): open(f"/tmp/d{E['MARK']}/{i}",'w').close()
finally: subprocess.call(['rm','-rf','/tmp/d'+E['MARK']])
