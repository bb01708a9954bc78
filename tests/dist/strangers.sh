#!/usr/bin/env bash
# strangers.sh LOCKSTEP FOLDER [MESSAGES]: what listens for a job by --nodes is sent what it should not believe (FOLDER/stranger), while it
# waits for its nodes and while it trains: noise, cut and oversized messages, messages sent again, by strangers without a key, with
# another one, and by somebody who has the right one. Nothing is answered, nothing crashes, and the weights are those of an undisturbed run.
# MESSAGES (10000): how many in all.
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; numbers
source "$(dirname "$0")/lib.sh"
unset LOCKSTEP_DATA MASTER_ADDR MASTER_PORT WORLD_SIZE RANK
stranger=$2/stranger
total=${3:-10000}
"$lockstep" server --keygen keys >/dev/null 2>err || skip_all "$(sed 's/^lockstep: //' err)"

free_port
address=127.0.0.1:$port
args=(lenet5 digits -b 64 --shards 4 --schedule constant --epochs 100000 --no-eval -t 1 -p 1 --checkpoint-every none --timeout 300)
common=("${args[@]}" --nodes 2 --master "$address" --key keys/node.key --run "$work/r" --json)

# attack WHEN: a half of all
attack() {
    local kind n status
    for kind in raw keyless replay insider; do
        n=$((total / 8))
        if [ $kind = replay ]; then n=$((total / 80)); elif [ $kind = insider ]; then n=$((total * 19 / 80)); fi
        "$stranger" $kind "$address" "$n" keys/node.key >out.s 2>err.s
        status=$?
        equal "$1: exit code of stranger $kind: $(cat out.s err.s)" $status 0
    done
}

"$lockstep" train "${common[@]}" --rank 0 >out 2>err </dev/null &
first=$!
pids+=("$first")
eventually grep -q 'waits at' err || bad "rank 0 does not wait: $(cat err)"
attack "while rank 0 waits"
LOCKSTEP_MACHINE=other "$lockstep" train "${common[@]}" --rank 1 >out.1 2>err.1 </dev/null &
second=$!
pids+=("$second")
eventually has_lines "$work/r/metrics.jsonl" 3 || bad "no steps: $(cat err err.1)"
attack "while it trains"
lines=$(wc -l <"$work/r/metrics.jsonl")
eventually has_lines "$work/r/metrics.jsonl" $((lines + 3)) || bad "no more steps: $(cat err err.1)"
kill -TERM $first
wait $first
equal "exit code of rank 0" $? 75
wait $second
equal "exit code of rank 1" $? 75
equal "refused or dropped without a word" "$(grep -c refused err)" 0
steps=$(field steps) hash=$(field weights_hash)
note "$steps steps"
equal "weights after $steps steps" "$hash" "$(hash_of "${args[@]}" -i "$steps")"
finish
