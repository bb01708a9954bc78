#!/usr/bin/env bash
# strangers.sh LOCKSTEP FOLDER [MESSAGES]: what listens for a job by --nodes, and a parameter server, are sent what they should not believe
# (FOLDER/stranger, FOLDER/traitor), while they wait and while they train: noise, cut and oversized messages, messages sent again, by
# strangers without a key, with another one, and by somebody who has the right one, who may even have joined as a worker or stand between
# worker and server. Nothing is answered to strangers, nothing crashes, and the weights are those of an undisturbed run.
# MESSAGES (10000): how many in all, to each of the two.
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; numbers
source "$(dirname "$0")/lib.sh"
unset LOCKSTEP_DATA MASTER_ADDR MASTER_PORT WORLD_SIZE RANK
total=${3:-10000}
"$lockstep" server --keygen keys >/dev/null 2>err || skip_all "$(sed 's/^lockstep: //' err)"
parts nodes server

# attack WHEN KEY KIND:N...: so many messages of each kind
attack() {
    local when=$1 key=$2 one program status
    shift 2
    for one in "$@"; do
        program=stranger
        if [ ${one%:*} = member ]; then program=traitor; fi
        "$programs/$program" ${one%:*} "$address" ${one#*:} "$key" >out.s 2>err.s
        status=$?
        equal "$when: exit code of $program ${one%:*}: $(cat out.s err.s)" $status 0
    done
}
args=(lenet5 digits -b 64 --shards 4 --schedule constant --epochs 100000 --no-eval -t 1 -p 1 --checkpoint-every none --timeout 300)

if [ "$part" = server ]; then
    "$lockstep" server "${args[@]}" --no-record --key keys/server.key --listen 127.0.0.1:0 --run "$work/s" --json >out 2>err </dev/null &
    server=$!
    pids+=("$server")
    eventually grep -qs '^parameter server at' err || bad "the server does not listen: $(cat err)"
    address=$(sed -n 's/^parameter server at \([^ ]*\) .*/\1/p' err)
    attack "while it waits" keys/worker.key raw:$((total / 16)) keyless:$((total / 16)) replay:$((total / 100)) insider:$((total / 16)) member:$((total / 16))
    # Two workers: one speaks to the server itself, the other to somebody who has both keys and passes on what it says, and more.
    "$programs/traitor" between "$address" $((total / 5)) keys/worker.key keys/server.key >out.b 2>err.b &
    between=$!
    pids+=("$between")
    eventually has_lines out.b 1 || bad "nobody between: $(cat err.b)"
    numbers=()
    for where in "$address" "$(head -n 1 out.b)"; do
        "$lockstep" train --server "$where" --key keys/worker.key -t 1 --timeout 300 >out.w 2>"err.w${#numbers[@]}" </dev/null &
        numbers+=($!)
        pids+=($!)
    done
    eventually has_lines "$work/s/metrics.jsonl" 3 || bad "no steps: $(cat err err.w*)"
    attack "while it trains" keys/worker.key raw:$((total / 8)) keyless:$((total / 8)) replay:$((total / 80)) insider:$((total / 4)) member:$((total / 4))
    lines=$(wc -l <"$work/s/metrics.jsonl")
    eventually has_lines "$work/s/metrics.jsonl" $((lines + 3)) || bad "no more steps: $(cat err err.w*)"
    kill -TERM $server
    wait $server
    equal "exit code of the server" $? 75
    for one in "${numbers[@]}"; do
        wait $one
        equal "exit code of a worker" $? 75
    done
    wait $between
    equal "exit code of who stood between: $(cat out.b err.b)" $? 0
    steps=$(field steps) hash=$(field weights_hash)
    cp out out.ended
    equal "weights after $steps steps" "$hash" "$(hash_of "${args[@]}" -i "$steps")"
    equal "every shard once, by the two workers" "$(value 'len(r["elastic"]["workers"]), sum(w["shards"] for w in r["elastic"]["workers"]) == 4 * r["steps"]' out.ended)" '(2, True)'
    finish
fi

free_port
address=127.0.0.1:$port
common=("${args[@]}" --nodes 2 --master "$address" --key keys/node.key --run "$work/r" --json)

half=(raw:$((total / 8)) keyless:$((total / 8)) replay:$((total / 80)) insider:$((total * 19 / 80)))
"$lockstep" train "${common[@]}" --rank 0 >out 2>err </dev/null &
first=$!
pids+=("$first")
eventually grep -q 'waits at' err || bad "rank 0 does not wait: $(cat err)"
attack "while rank 0 waits" keys/node.key "${half[@]}"
LOCKSTEP_MACHINE=other "$lockstep" train "${common[@]}" --rank 1 >out.1 2>err.1 </dev/null &
second=$!
pids+=("$second")
eventually has_lines "$work/r/metrics.jsonl" 3 || bad "no steps: $(cat err err.1)"
attack "while it trains" keys/node.key "${half[@]}"
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
