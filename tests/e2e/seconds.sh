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
# Several sittings are one run: an epoch's speed is over its own seconds, nothing is counted twice or forgotten.
law() {
    python3 - "$1" "$2" 2>&1 <<'EOF2'
import json, sys
result, before, last = json.load(open(sys.argv[1] + "/result.json")), 0, 0
for line in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    speed, seconds = line["images_per_second"], line["seconds"]
    if line["split"] == "epoch":
        if abs(int(sys.argv[2]) / speed - (seconds - before)) > 1e-4 + 1e-3 * (seconds - before):
            print("epoch", line["epoch"], "took", int(sys.argv[2]) / speed, "by its speed,", seconds - before, "by its seconds")
        before = seconds
    if line["split"] == "train":
        if 3 * 16 / speed < 0.99 * (seconds - last): print("step", line["step"], "took", 3 * 16 / speed, "by its speed,", seconds - last, "by its seconds")
        last = seconds
if abs(result["images"] / result["train_seconds"] - result["images_per_second"]) > 1e-4 * result["images_per_second"]: print("speed of all:", result)
if result["train_seconds"] > result["total_seconds"]: print("more training than time:", result["train_seconds"], result["total_seconds"])
EOF2
}
net=(lenet5 fake:1x28x28:10:192 -b 16 --epochs 3 -p 3 --run sittings --resume auto)
for i in 5 17 18 30 36; do train "${net[@]}" -i $i; done
equal 'five sittings: the end' "$code $(field steps)" '0 36'
equal 'five sittings: speeds and seconds of epochs and steps' "$(law sittings 192)" ""
equal 'five sittings: the parts' "$(split_of sittings)" ""

finish
