d='/proc/'+E['VICTIM']+'/fd/'
assert any(SECRET in read(d+n) for n in os.listdir(d) if os.path.basename(os.readlink(d+n)).startswith('secret'))
