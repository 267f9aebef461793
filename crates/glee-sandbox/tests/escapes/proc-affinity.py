os.sched_setaffinity(int(E['VICTIM']), os.sched_getaffinity(0))
