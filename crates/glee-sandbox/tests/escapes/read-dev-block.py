# void: unprivileged maybe
assert any(os.read(os.open('/dev/'+n, os.O_RDONLY), 512) for n in os.listdir('/dev') if n in ('vda','sda','nvme0n1'))
