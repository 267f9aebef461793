# void: unprivileged
assert os.listdir(os.path.expanduser('~') if E['TEST_UID']!='0' else '/root')
