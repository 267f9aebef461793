# landlock: leaks: landlock does not hold metadata back
assert os.readlink(os.path.dirname(E['SECRET_FILE'])+'/link')
