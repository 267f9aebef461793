os.unlink(os.path.dirname(E['SECRET_FILE'])+'/victim')
