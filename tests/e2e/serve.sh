#!/usr/bin/env bash
# serve.sh LOCKSTEP: the live page over HTTP: headers, methods, names, tokens, hostile runs, events. What a browser makes of it: serve_page.sh.
# test: sanitize tsan
# shellcheck disable=SC2154,SC1091 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
"$lockstep" serve --port 0 --listen 127.0.0.1 nowhere 2>&1 | grep -q "needs libmicrohttpd" && skip_all "libmicrohttpd is not installed"
python3 "$here/serve.py" "$lockstep"
exit
