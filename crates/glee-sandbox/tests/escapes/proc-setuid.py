# void: unprivileged
os.setresuid(12345,12345,12345)
