assert SECRET in read('/proc/self/environ')
