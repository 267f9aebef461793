line=[l for l in open('/proc/'+E['VICTIM']+'/maps') if '[stack]' in l or '[heap]' in l][0]
start=int(line.split('-')[0],16); fd=os.open('/proc/'+E['VICTIM']+'/mem', os.O_RDONLY); assert os.pread(fd, 16, start)
