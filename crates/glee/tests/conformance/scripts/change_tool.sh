#!/bin/sh
# Another number each time, so that the script's digest is another one.
printf '#!/bin/sh\nprintf %s\n' "$(date +%s%N)" >changing/run.sh
printf 'The tool was changed'
