# landlock: leaks: landlock does not hold metadata back
assert os.getxattr(E['SECRET_FILE'],'user.glee')
