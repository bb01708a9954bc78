#!/usr/bin/env bash
# seconds.sh LOCKSTEP: what communication costs over two machines: what the steps waited for is a part of them, and what was hidden
# behind computing stands beside the parts, which add up as they do for one machine.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi

# travel RUN: "yes yes" when sums travelled unseen, and when they were waited for
travel() {
    python3 -c 'import json, sys
s = json.load(open(sys.argv[1] + "/result.json"))["seconds"]
print("yes" if s["hidden"] > 0 else s, "yes" if s["communicate"] > 0 else s)' "$1"
}
over() { # RUN ARGS...: over two machines
    "$lockstep" train "${@:2}" -w 2 --run "$work/$1" --mpi-args "$as machines 1 --" --json >out 2>err
}
over all resnet-small fake:3x32x32:10:64 -b 32 -i 4 || bad "exit $?: $(tail -n 1 err)"
equal "two machines: the parts add up" "$(split_of all)" ""
equal "two machines: sums travel, hidden and exposed" "$(travel all)" "yes yes"

over average lenet5 digits -b 64 -i 8 --sync local:4 --no-eval || bad "exit $?: $(tail -n 1 err)"
equal "averages: the parts add up" "$(split_of average)" ""

# Ranks of one machine send nothing.
"$lockstep" train lenet5 digits -b 64 -i 8 -w 2 --no-eval --run "$work/one" --json >out 2>err || bad "one machine: $(tail -n 1 err)"
equal "one machine: the parts add up" "$(split_of one)" ""
equal "one machine: nothing travels" "$(field seconds one/result.json | grep -o "'hidden': [^,}]*")" "'hidden': 0.0"

# A job that breaks leaves its communication thread alone with the trace it writes to.
over broken lenet5 digits -b 64 -i 100000 --max-restarts 0 --no-eval &
eventually has_lines "$work/broken/metrics.jsonl" 3 && kill -KILL "$(rank_pid "$work/broken" 1)"
if wait $!; then bad "a rank that dies: the job does not fail"; fi
leaves_nothing "a rank that dies" "$work/broken"

finish
