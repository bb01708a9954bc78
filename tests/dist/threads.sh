#!/usr/bin/env bash
# threads.sh LOCKSTEP: short jobs in which every thread of ours has something to do: main, workers, loader, writer, communication; and
# their ends, good and bad. The build with ThreadSanitizer runs it too, which then looks for races within each rank.
# test: tsan
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"

args=(lenet5 digits -b 32 -t 2 -i 6 --checkpoint-every 2 --crop-pad 2 --no-eval --timeout 300)
alone=$(hash_of "${args[@]}" --run "$work/alone")
note "alone: $alone"
clean() { if grep -qa ThreadSanitizer err; then bad "$1: $(grep -aA 40 -m 1 ThreadSanitizer err)"; else ok "$1: no race"; fi; }
clean alone

train "${args[@]}" --sync local:2 --run "$work/local"
equal 'local SGD' "$code" 0
clean 'local SGD'

# Parameter servers: the server's own thread for messages and its main one, ZeroMQ's beside them; several servers; updates at any time.
if "$lockstep" doctor 2>/dev/null | grep -q '^ok *messages'; then
    for how in '--sync ps --servers 2' '--sync async --momentum 0'; do
        # shellcheck disable=SC2086 # words
        train "${args[@]}" -w 2 $how --run "$work/served"
        equal "$how" "$code" 0
        if [[ $how == *ps* ]]; then equal "$how: weights" "$(field weights_hash)" "$alone"; fi
        clean "$how"
        rm -rf "$work/served"
    done
fi

need_mpi
equal 'two machines' "$(hash_of "${args[@]}" -w 2 --mpi-args "$as machines 1" --run "$work/machines")" "$alone"
clean 'two machines'
equal 'two ranks of a machine' "$(hash_of "${args[@]}" -w 2 --run "$work/ranks")" "$alone"
clean 'two ranks of a machine'

train "${args[@]}" -w 2 --lr 1e6 --mpi-args "$as machines 1" --run "$work/infinite"
equal 'a loss that is not finite' "$code" 5
clean 'a loss that is not finite'
train "${args[@]}" -w 2 --mpi-args "$as machines 1 -- other 1 --seed 7 --" --run "$work/other"
has 'a rank with another seed' err seed
clean 'a rank with another seed'
finish
