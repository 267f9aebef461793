t=time.process_time()
while time.process_time()-t < 3: pass
