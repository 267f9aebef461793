assert subprocess.call([E['OUTSIDE_PROGRAM']])==0
