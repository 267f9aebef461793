os.sched_setscheduler(int(E['VICTIM']), os.SCHED_BATCH, os.sched_param(0))
