#!/usr/bin/env bash
# instructions.sh LOCKSTEP: no network needs over 5 % more instructions per step than bench/instructions.json says (half a minute).
# Skipped without valgrind, and with another compiler, library or build than the baseline's.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
bench=$here/../../bench
export LOCKSTEP=$lockstep PYTHONDONTWRITEBYTECODE=1

is_sanitized && skip_all "AddressSanitizer does not run under valgrind"
"$bench/instructions" --check >out 2>err
code=$?
cat out
case $code in
    77) skip_all "$(tail -n 1 out)" ;;
    0) ok "instructions per step against the baseline" ;;
    *) bad "instructions per step: exit code $code: $(cat err)" ;;
esac

# The check can fail: against a baseline of half as much.
python3 - "$bench/instructions.json" >half.json <<'END'
import json, sys
base = json.load(open(sys.argv[1]))
base["steps"]["softmax"]["own"] //= 2
json.dump(base, sys.stdout)
END
"$bench/instructions" --check --only softmax --baseline half.json >out 2>err
equal "a step that doubled is found" "$?" 1
has "and named" err "softmax: "

finish
