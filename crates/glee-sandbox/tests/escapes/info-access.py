# landlock: leaks: landlock does not hold metadata back
assert os.access(E['SECRET_FILE'], os.F_OK)
