# user: leaks: memory of a memfd counts only in a control group
b=bytes(1<<20)
for i in range(28):
    fd=os.memfd_create(str(i))
    for _ in range(25): os.write(fd,b)
