os.symlink(E['SECRET_FILE'], E['WRITE']+'/sl'); assert SECRET in read(E['WRITE']+'/sl')
