# void: unprivileged
os.chmod('/dev/null', 0o666)
