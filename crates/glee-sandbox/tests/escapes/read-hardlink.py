os.link(E['SECRET_FILE'], E['WRITE']+'/hl'); assert SECRET in read(E['WRITE']+'/hl')
