os.mkdir(os.path.dirname(E['SECRET_FILE'])+'/dir')
