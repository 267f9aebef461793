open('/proc/'+E['VICTIM']+'/oom_score_adj','w').write('900')
