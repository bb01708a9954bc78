#!/usr/bin/env bash
# serve_page.sh LOCKSTEP: the live page in a browser, over a training that runs. Needs Chromium and its driver, nothing else.
# shellcheck disable=SC2154,SC1091 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
for program in chromium chromedriver; do command -v $program >/dev/null || skip_all "$program is not installed"; done
"$lockstep" serve --port 0 nowhere 2>&1 | grep -q "needs libmicrohttpd" && skip_all "libmicrohttpd is not installed"
python3 "$here/serve_page.py" "$lockstep"
exit
