# void: maybe
import resource; assert resource.getrlimit(resource.RLIMIT_CORE)[1] != 0
