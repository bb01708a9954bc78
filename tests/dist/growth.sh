#!/usr/bin/env bash
# growth.sh LOCKSTEP: what a rank costs at the start does not grow with their number. Counted in CPU time, not on the clock: machines that
# share the cores of one are late, and must not spend the time with work nobody needs.
# test: serial
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi

cost_of() { # N: milliseconds of CPU time per machine, of a job of one step
    local before
    before=$(children_ms)
    train softmax digits -b 64 --shards 32 -i 1 --no-eval --timeout 300 --checkpoint-every none -w "$1" --mpi-args "$as machines 1 --" --run "$work/$1"
    cost=$((($(children_ms) - before) / $1))
    equal "$1 machines: exit code" "$code" 0
}
cost_of 4
few=$cost
cost_of 16
many=$cost
if [ "$many" -le $((few + few / 10)) ]; then ok "a start costs $few ms per machine of 4, $many of 16"
else bad "a start costs $many ms per machine of 16, $few of 4"; fi
finish
