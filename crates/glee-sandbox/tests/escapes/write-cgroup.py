# void: unprivileged
d='/sys/fs/cgroup/'+('pids/' if os.path.isdir('/sys/fs/cgroup/pids') else ''); os.mkdir(d+E['MARK']); os.rmdir(d+E['MARK'])
