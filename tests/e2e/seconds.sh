#!/usr/bin/env bash
# seconds.sh LOCKSTEP: where the time goes: the parts in result.json add up to the wall clock within 1 %, those of the steps to
# train_seconds, on an idle machine and on a busy one, for one thread, several, replicas; a device that lags.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"

for load in idle busy; do
    if [ $load = busy ]; then for _ in 1 2 3 4; do (while :; do :; done) & pids+=($!); disown; done; fi
    train lenet5 digits -b 64 -i 12 --checkpoint-every 5 --threads 1 --run one-$load
    equal "one thread, $load" "$(split_of one-$load)" ""
    train lenet5 digits -b 64 -i 12 --threads 2 --clip-norm 1 --run two-$load
    equal "two threads, $load" "$(split_of two-$load)" ""
    train lenet5 digits -b 64 -i 12 --sync local:4 --threads 2 --no-eval --run local-$load
    equal "replicas, $load" "$(split_of local-$load)" ""
done
evaluated() { field seconds "$1/result.json" | grep -o "'evaluate': [^,]*"; }
differs "an evaluation is a part" "$(evaluated one-idle)" "'evaluate': 0.0"
equal "and none where there was none" "$(evaluated local-idle)" "'evaluate': 0.0"

equal "nothing travels on one machine" "$(field seconds one-idle/result.json | grep -o "'hidden': [^,}]*")" "'hidden': 0.0"

# What a device still computes when the host asks for it is computing, not waiting.
plugins=$(dirname "$lockstep")/plugins
if [ -e "$plugins/lockstep-far.so" ]; then
    LOCKSTEP_PLUGINS=$plugins LOCKSTEP_FAR_LAG_MS=50 train softmax digits -b 64 -i 8 --threads 1 --no-eval --device far --run far
    equal "a device that lags" "$(split_of far)" ""
    equal "its lag is computing" "$(python3 -c 'import json
s = json.load(open("far/result.json"))["seconds"]
print("yes" if s["compute"] >= 8 * 0.05 and s["wait"] < 0.5 * s["compute"] else s)')" yes
fi

finish
