os.rename(os.path.dirname(E['SECRET_FILE'])+'/victim', E['WRITE']+'/stolen')
