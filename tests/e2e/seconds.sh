#!/usr/bin/env bash
# seconds.sh LOCKSTEP: where the time goes: the parts in result.json add up to the wall clock within 1 %, those of the steps to
# train_seconds, on an idle machine and on a busy one, for one thread, several, replicas.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"

# split RUN: how far the parts are from the whole, and which are below zero; nothing when all is well
split() {
    python3 - "$1/result.json" 2>&1 <<'EOF'
import json, sys
result = json.load(open(sys.argv[1]))
parts, total, steps = result["seconds"], result["total_seconds"], result["train_seconds"]
in_steps = sum(parts[k] for k in ("load", "compute", "communicate", "wait", "update"))
if abs(sum(parts.values()) - total) > 0.01 * total: print("parts make", sum(parts.values()), "of", total, parts)
if abs(in_steps - steps) > 0.01 * steps: print("parts of steps make", in_steps, "of", steps, parts)
if min(parts.values()) < 0: print("below zero:", parts)
if parts["compute"] <= 0 or parts["update"] <= 0 or parts["setup"] <= 0: print("not measured:", parts)
EOF
}
for load in idle busy; do
    if [ $load = busy ]; then for _ in 1 2 3 4; do (while :; do :; done) & pids+=($!); disown; done; fi
    train lenet5 digits -b 64 -i 12 --checkpoint-every 5 --threads 1 --run one-$load
    equal "one thread, $load" "$(split one-$load)" ""
    train lenet5 digits -b 64 -i 12 --threads 2 --clip-norm 1 --run two-$load
    equal "two threads, $load" "$(split two-$load)" ""
    train lenet5 digits -b 64 -i 12 --sync local:4 --threads 2 --no-eval --run local-$load
    equal "replicas, $load" "$(split local-$load)" ""
done
evaluated() { field seconds "$1/result.json" | grep -o "'evaluate': [^,]*"; }
differs "an evaluation is a part" "$(evaluated one-idle)" "'evaluate': 0.0"
equal "and none where there was none" "$(evaluated local-idle)" "'evaluate': 0.0"

finish
