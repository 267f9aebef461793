l=[os.open('/dev/null',0) for _ in range(1500)]; assert l
