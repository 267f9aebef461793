os.symlink(E['SECRET_FILE'], E['WRITE']+'/wl'); open(E['WRITE']+'/wl','a').write('x')
