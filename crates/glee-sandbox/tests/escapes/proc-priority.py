os.setpriority(os.PRIO_PROCESS, int(E['VICTIM']), 19)
