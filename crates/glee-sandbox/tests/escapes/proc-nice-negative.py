# void: unprivileged
os.nice(-5)
