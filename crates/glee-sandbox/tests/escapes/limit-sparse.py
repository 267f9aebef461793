os.truncate(os.open(E['WRITE']+'/big', os.O_CREAT|os.O_RDWR), 1<<40)
