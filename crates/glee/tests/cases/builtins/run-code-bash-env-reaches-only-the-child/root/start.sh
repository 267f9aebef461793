echo by-bash-env > made.txt
