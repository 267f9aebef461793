# landlock: leaks: landlock does not hold metadata back
os.stat(E['SECRET_FILE'])
