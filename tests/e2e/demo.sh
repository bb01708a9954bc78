#!/usr/bin/env bash
# demo.sh LOCKSTEP: what `make demo` shows: its options train LeNet-5 on the built-in digits to 98 % in less than a minute, and what it
# tells people to type works. The options are read from scripts/demo, so that the two cannot drift apart.
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
script=$here/../../scripts/demo
command -v python3 >/dev/null || skip_all "python3 is not installed"
read -r -a options < <(sed -n 's/^\$lockstep train \(.*\) --run .*/\1/p' "$script")
if [ ${#options[@]} -lt 2 ]; then bad "no \"\$lockstep train ... --run\" in $script"; finish; fi

train "${options[@]}" --run demo
equal "train ${options[*]}: exit code" "$code" 0
accuracy=$(field test_accuracy) seconds=$(field train_seconds) hash=$(field weights_hash)
if python3 -c "exit(not ${accuracy:-0} >= 0.98)"; then ok "accuracy $accuracy"; else bad "accuracy $accuracy, expected 0.98 or more"; fi
# Other tests may run beside this one: seconds of the processor count, not those of the clock.
cpu=$(python3 -c 'import json; r = json.load(open("out")); print(r["cpu_percent_mean"] / 100 * r["total_seconds"])')
if python3 -c "exit(not ${cpu:-999} < 120)"; then ok "$seconds s of training, $cpu s on processors"; else bad "$cpu s on processors, expected less than 120"; fi

# Digits are no task for a linear model: the network has something to show.
train softmax "${options[@]:1}" --run linear
linear=$(field test_accuracy)
if python3 -c "exit(not ${linear:-1} < 0.92)"; then ok "softmax reaches $linear"; else bad "softmax reaches $linear, expected less than 0.92"; fi

"$lockstep" eval demo/checkpoints/latest.safetensors --json >out 2>err
equal 'eval: exit code, hash' "$? $(field weights_hash)" "0 $hash"
equal 'eval: the accuracy of the run' "$(field accuracy)" "$accuracy"
has 'the demo names the run directory' "$script" 'result.json'
for file in metrics.jsonl result.json checkpoints/latest.safetensors; do
    if [ -s demo/$file ]; then ok "demo/$file"; else bad "demo/$file is not there"; fi
done
finish
