fd=os.open(E['SECRET_FILE'], os.O_PATH); assert SECRET in read(f'/proc/self/fd/{fd}')
