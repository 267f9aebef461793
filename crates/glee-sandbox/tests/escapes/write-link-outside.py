open(E['WRITE']+'/l','w'); os.link(E['WRITE']+'/l', os.path.dirname(E['SECRET_FILE'])+'/linked')
