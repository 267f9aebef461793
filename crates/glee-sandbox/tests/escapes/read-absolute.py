assert SECRET in read(E['SECRET_FILE'])
