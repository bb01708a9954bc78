#!/usr/bin/env bash
# meet.sh LOCKSTEP [FOLDER]: jobs without MPI: processes that are started one by one with --nodes, --rank and --master.
#
#   promise        the bits of one process: ranks that share memory, ranks of machines of their own, with keys and without
#   dead rank      named on every node, exit code 6; a stopped one after the timeout
#   wrong starts   another rank, the same rank twice, another number of nodes, other options: refused with the reason
#   late starts    who waits says for whom; a missing node is named after the timeout
#   torchrun       its four variables, alone and beside options; left-over ones change nothing of an mpirun job
#   served         --sync ps: rank 0 is the server, the others are workers; one that died may come again
#   keys           a node without the key, or with another one, never gets in; without keys loopback only
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
unset LOCKSTEP_DATA MASTER_ADDR MASTER_PORT WORLD_SIZE RANK

"$lockstep" server --keygen keys >/dev/null 2>err || skip_all "$(sed 's/^lockstep: //' err)"

declare -A node=()
# node R ARGS...: starts rank R; out.R, err.R. The rest of the line is in `common`.
node() {
    local r=$1
    shift
    "$lockstep" train "${common[@]}" --rank "$r" "$@" >"out.$r" 2>"err.$r" </dev/null &
    node[$r]=$!
    pids+=("${node[$r]}")
}
# end_of R: leaves code
end_of() {
    code=124
    eventually is_gone "${node[$1]}" || kill -KILL "${node[$1]}"
    wait "${node[$1]}" 2>/dev/null
    code=$?
}
# nodes N ARGS...: a job of N that ends by itself; leaves its hash
nodes() {
    local n=$1 r codes=
    shift
    free_port
    common=("$@" --nodes "$n" --master "127.0.0.1:$port" --run "$work/r" --json --timeout 120)
    rm -rf "$work/r"
    for ((r = n - 1; r >= 0; r--)); do LOCKSTEP_MACHINE=${machine:+$machine$((r / per_machine))} node $r; done
    for ((r = 0; r < n; r++)); do
        end_of $r
        codes+=$code
    done
    if [ -n "${codes//0/}" ]; then hash="exit codes $codes: $(cat err.* | head -c 300)"; else hash=$(field weights_hash out.0); fi
}

short=(softmax digits -b 100 -i 20 --no-eval -t 1)
refused() { # WHAT TEXT ARGS...: exit code 2, and the text
    local what=$1 text=$2
    shift 2
    "$lockstep" train "$@" >out.x 2>err.x </dev/null
    equal "$what: exit code" "$?" 2
    if grep -q "$text" err.x; then ok "$what: $(tail -n 1 err.x)"; else bad "$what: expected '$text': $(cat err.x)"; fi
}

parts promise dead starts others served

# --- the promise ---

part_promise() {
    for line in "lenet5 digits -b 64 -i 30 --optimizer adamw --crop-pad 2" "softmax digits -b 100 -i 60" "lenet5 digits -b 64 -i 20 --sync local:4"; do
        # shellcheck disable=SC2206 # words
        args=($line --no-eval -t 1)
        alone=$(hash_of "${args[@]}")
        machine='' per_machine=1
        nodes 3 "${args[@]}" --slow 2:1.1
        equal "$line: 3 nodes that share memory" "$hash" "$alone"
        equal "$line: --slow 2:1.1: the second of them" "$(grep -l 'node 2 is held back' err.?)" err.1
        machine=m per_machine=1
        nodes 3 "${args[@]}"
        equal "$line: 3 nodes, each a machine" "$hash" "$alone"
    done
    machine=m per_machine=2
    nodes 4 "${args[@]}" --key keys/node.key
    equal "4 nodes on 2 machines, with a key" "$hash" "$alone"
}

# --- a rank dies, a rank stops ---

part_dead() {
    endless=(lenet5 digits -b 64 --shards 6 --epochs 1000000 --no-eval -t 1 -q -p 1 --checkpoint-every 10)
    begin() { # MACHINES? ARGS...: three endless nodes that train
        local own=$1 r
        shift
        free_port
        common=("${endless[@]}" "$@" --nodes 3 --master "127.0.0.1:$port" --run "$work/r")
        rm -rf "$work/r"
        for r in 0 1 2; do LOCKSTEP_MACHINE=${own:+$own$r} node $r; done
        eventually has_lines "$work/r/metrics.jsonl" 3 || bad "no steps: $(cat err.* | head -c 300)"
    }
    ends_named() { # WHAT VICTIM TEXT
        local r
        for r in 0 1 2; do
            if [ $r = "$2" ]; then continue; fi
            end_of $r
            equal "$1: exit code of rank $r" "$code" 6
            if grep -Eq "^lockstep: rank $2 on $3" "err.$r"; then ok "$1: $(tail -n 1 "err.$r")"; else bad "$1: rank $2 is not named by rank $r: $(cat "err.$r")"; fi
        done
    }
    for victim in 0 2; do
        begin m --timeout 300
        kill -KILL "${node[$victim]}"
        ends_named "killed rank $victim of machines" $victim "m$victim( \\(pid ${node[$victim]}\\))? died" # by its neighbour, or by its connection
    done
    begin '' --timeout 300
    kill -KILL "${node[1]}"
    ends_named "killed rank 1 of a shared machine" 1 "$(hostname) \\(pid ${node[1]}\\) died at step"

    begin m --timeout 4
    kill -STOP "${node[1]}"
    timed "stopped rank 1: rank 0 gives up" 4 is_gone "${node[0]}"
    ends_named "stopped rank 1" 1 "m1 has been silent for"
    kill -KILL "${node[1]}"

    # --- signals: any node stops all of them, with a checkpoint ---

    begin m --timeout 300
    kill -TERM "${node[2]}"
    for r in 0 1 2; do
        end_of $r
        equal "SIGTERM to rank 2: exit code of rank $r" "$code" 75
    done
    has "SIGTERM: how this node goes on" err.0 "go on with: lockstep train --resume $work/r --nodes 3 --rank 0 --master "
    if has_checkpoint "$work/r"; then ok "SIGTERM: there is a checkpoint"; else bad "SIGTERM: no checkpoint"; fi
    free_port
    common=("${short[@]}" --nodes 2 --master "127.0.0.1:$port" --timeout 300)
    node 1
    eventually grep -q 'rank 1 of 2 waits for rank 0' err.1 || bad "rank 1 does not say that it waits: $(cat err.1)"
    kill -INT "${node[1]}"
    end_of 1
    equal "SIGINT while waiting: exit code" "$code" 75
}

# --- who comes late, twice, or wrongly ---

part_starts() {
    free_port
    common=("${short[@]}" --nodes 3 --master "127.0.0.1:$port" --run "$work/r" --timeout 120)
    rm -rf "$work/r"
    node 1
    eventually grep -q 'rank 1 of 3 waits for rank 0' err.1 || bad "rank 1 does not say that it waits: $(cat err.1)"
    node 0
    eventually grep -q 'rank 0 of 3 waits at .* for rank 2' err.0 || bad "rank 0 does not say for whom it waits: $(cat err.0)"
    refused "a second rank 1" 'there is a rank 1 already' "${common[@]}" --rank 1
    refused "rank 3 of 3" 'expected 0 to 2' "${common[@]}" --rank 3
    refused "another number" 'was started with --nodes 5, rank 0 with --nodes 3' "${common[@]}" --rank 4 --nodes 5
    "$lockstep" train "${common[@]}" --rank 0 --run "$work/r0" >out.x 2>err.x
    equal "a second rank 0: exit code" "$?" 1
    node 2
    for r in 0 1 2; do
        end_of $r
        equal "the right ones: exit code of rank $r" "$code" 0
    done
    if grep -q 'all 3 nodes are there' err.0; then ok "rank 0 says that all are there"; else bad "rank 0 says: $(cat err.0)"; fi

    free_port
    common=("${short[@]}" --nodes 2 --master "127.0.0.1:$port" --run "$work/r" --timeout 60)
    rm -rf "$work/r"
    node 0
    node 1 --lr 0.3
    for r in 0 1; do
        end_of $r
        equal "other options: exit code of rank $r" "$code" 1
        if grep -q 'does not do the same.*lr=0.29' "err.$r"; then ok "other options: rank $r shows the difference"; else bad "other options: $(cat "err.$r")"; fi
    done

    # As long as rank 1 does not come in time, there is more time.
    for seconds in 2 10 60; do
        free_port
        common=("${short[@]}" --nodes 3 --master "127.0.0.1:$port" --timeout "$seconds")
        node 0
        node 1
        end_of 1
        code1=$code
        end_of 0
        if grep -q ': rank 2 did not join' err.0; then break; fi
    done
    equal "missing node: exit codes" "$code $code1" '6 6'
    for r in 0 1; do has "missing node: rank $r names it" err.$r 'rank 2 did not join'; done
    refused "no --rank" 'expected 0 to 1' "${short[@]}" --nodes 2 --rank 2 --master 127.0.0.1:1
    refused "no --master" '\-\-master is missing' "${short[@]}" --nodes 2 --rank 1
    refused "--workers too" 'give one' "${short[@]}" --nodes 2 --rank 1 --master 127.0.0.1:1 -w 2
    refused "not an address" 'expected HOST:PORT' "${short[@]}" --nodes 2 --rank 1 --master nowhere

    # What is trained, and how, is the server's to say.
    for option in '--lr 0.1' '--workers 2' '--sync ps' '--run r' --no-eval; do
        refused "a worker with $option" "says how it is trained: leave ${option%% *} out" --server 127.0.0.1:9 --timeout 0.2 $option
    done
    refused "a node without MODEL, with --lr" 'leave --lr out' --sync ps --nodes 2 --rank 1 --master 127.0.0.1:9 --timeout 0.2 --lr 0.1
    "$lockstep" server --chief 127.0.0.1:9 --timeout 0.2 --lr 0.1 >out.x 2>err.x </dev/null
    equal "one more server with --lr: exit code" "$?" 2
    has "one more server with --lr" err.x 'leave --lr out'
}

# --- torchrun's variables ---

part_others() {
    alone=$(hash_of "${short[@]}")
    export MASTER_ADDR=127.0.0.1 MASTER_PORT WORLD_SIZE=2
    free_port
    MASTER_PORT=$port
    rm -rf "$work/r"
    RANK=1 "$lockstep" train "${short[@]}" --timeout 60 --run "$work/r" >out.1 2>err.1 </dev/null &
    pids+=($!)
    RANK=0 train "${short[@]}" --timeout 60 --run "$work/r" || bad "torchrun's variables: $(cat err)"
    equal "torchrun's variables: workers" "$(field workers)" 2
    equal "torchrun's variables: weights" "$(field weights_hash)" "$alone"
    wait $!
    equal "torchrun's variables: exit code of rank 1" "$?" 0
    rm -rf "$work/r"
    export TORCHELASTIC_USE_AGENT_STORE=True # it listens there itself
    RANK=1 "$lockstep" train "${short[@]}" --timeout 60 --run "$work/r" >out.1 2>err.1 </dev/null &
    pids+=($!)
    python3 -c 'import socket, sys, time; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); time.sleep(600)' "$MASTER_PORT" &
    agent=$!
    pids+=("$agent")
    equal "torchrun's own port is taken: weights" "$(RANK=0 hash_of "${short[@]}" --timeout 60 --run "$work/r")" "$alone"
    kill $agent
    unset TORCHELASTIC_USE_AGENT_STORE
    equal "--nodes 1 beside them" "$(RANK=1 hash_of "${short[@]}" --nodes 1)" "$alone"
    equal "one of them missing" "$(hash_of "${short[@]}")" "$alone" # no RANK
    RANK=1 MASTER_PORT=99999 refused "MASTER_PORT=99999" "MASTER_PORT is '99999': expected 1 to 65535" "${short[@]}"
    RANK=two refused "RANK=two" "RANK is 'two': expected 0 to WORLD_SIZE - 1" "${short[@]}"
    RANK=2 refused "RANK=2 of 2" "RANK is '2'" "${short[@]}"
    RANK=0 WORLD_SIZE=many refused "WORLD_SIZE=many" "WORLD_SIZE is 'many': expected 1 to 4096" "${short[@]}"
    equal "--nodes 1 beside MASTER_PORT=99999" "$(RANK=1 MASTER_PORT=99999 hash_of "${short[@]}" --nodes 1)" "$alone"
    equal "WORLD_SIZE=1" "$(RANK=0 WORLD_SIZE=1 hash_of "${short[@]}")" "$alone"
    if command -v mpirun >/dev/null; then equal "left over beside -w 2" "$(RANK=1 hash_of "${short[@]}" -w 2)" "$alone"; fi
    unset MASTER_ADDR MASTER_PORT WORLD_SIZE

    # --- keys ---

    refused "outside without a key" 'keygen' "${short[@]}" --nodes 2 --rank 1 --master 192.0.2.77:4711
    refused "outside without a key, rank 0" 'keygen' "${short[@]}" --nodes 2 --rank 0 --master '0.0.0.0:4711'
    chmod 644 keys/node.key
    refused "mode 0644" 'chmod 600' "${short[@]}" --nodes 2 --rank 0 --master 127.0.0.1:4711 --key keys/node.key
    chmod 600 keys/node.key
    ln -s node.key keys/link.key
    refused "a link" 'is a link' "${short[@]}" --nodes 2 --rank 0 --master 127.0.0.1:4711 --key keys/link.key
    refused "a worker's key" 'cannot listen' "${short[@]}" --nodes 2 --rank 0 --master 127.0.0.1:4711 --key keys/worker.key
    "$lockstep" server --keygen others >/dev/null
    free_port
    common=("${short[@]}" --nodes 2 --master "127.0.0.1:$port" --run "$work/r" --timeout 60)
    rm -rf "$work/r"
    node 0 --key keys/node.key
    eventually grep -q 'waits at' err.0 || bad "rank 0 does not wait: $(cat err.0)"
    refused "another key" 'does not take this node' "${common[@]}" --rank 1 --key others/node.key
    refused "no key" 'does not take this node' "${common[@]}" --rank 1
    node 1 --key keys/node.key
    for r in 0 1; do
        end_of $r
        equal "the right key: exit code of rank $r" "$code" 0
    done
}

# --- a parameter server ---
part_served() {
    local served reference master port r
    served=(lenet5 digits -b 64 --no-eval --no-record --seed 5 -t 1)
    reference=$(hash_of "${served[@]}" -i 30)
    nodes 3 "${served[@]}" -i 30 --sync ps
    equal 'ps: three nodes: the weights of one process' "$hash" "$reference"
    equal 'ps: three nodes computed' "$(python3 -c 'import json; print(len(json.load(open("out.0"))["elastic"]["workers"]))')" 3
    has 'ps: rank 0 waits for the others' err.0 'worker 2 joined at step 1'
    nodes 2 "${served[@]}" -i 30 --sync ps --key keys/node.key
    equal 'ps: with a key' "$hash" "$reference"
    nodes 2 "${served[@]}" -i 30 --sync ps --servers 3 --key keys/node.key
    equal 'ps: three servers on two nodes' "$hash" "$reference"
    equal 'ps: three servers on two nodes: they are there' "$(python3 -c 'import json; print(len(json.load(open("out.0"))["elastic"]["each_server"]))')" 3
    nodes 2 softmax digits -b 100 -i 20 --no-eval -t 1 --sync ssp:0
    equal 'ssp:0: the weights of one process' "$hash" "$(hash_of "${short[@]}")"

    # Other options are refused; a node that was told nothing learns them. Without the missing one the others go on after the timeout.
    free_port
    master=127.0.0.1:$port
    common=("${served[@]}" -i 150 --sync ps --nodes 2 --master "$master" --run "$work/d" --json --log-every 1 --lease 1 --timeout 60)
    reference=$(hash_of "${served[@]}" -i 150)
    node 0
    node 1 --lr 0.02
    end_of 1
    equal 'ps: other options: exit code' "$code" 2
    has 'ps: other options: which' err.1 '--lr is 0.02 here and 0.05 at the server'
    "$lockstep" train --sync ps --nodes 2 --rank 1 --master "$master" -t 1 >out.1 2>err.1 </dev/null &
    node[1]=$!
    pids+=("${node[1]}")
    eventually has_lines "$work/d/metrics.jsonl" 5
    has 'ps: a node that was told nothing learns it' err.1 'lenet5 on digits'
    pkill -STOP -P "${node[0]}" # its own worker, so that the run is not over before the other comes again
    kill -KILL "${node[1]}"
    wait "${node[1]}" 2>/dev/null
    eventually grep -q 'is gone at step' err.0
    node 1
    eventually grep -q 'worker 2 joined' err.0
    pkill -CONT -P "${node[0]}"
    end_of 0
    equal 'ps: a node killed, and started again: the weights of one process' "$(field weights_hash out.0)" "$reference"
    end_of 1
    equal 'ps: the node that came again: exit code' "$code" 0

    # torchrun's variables; a signal ends all of them with a checkpoint.
    free_port
    for r in 1 0; do
        MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WORLD_SIZE=2 RANK=$r LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 \
            "$lockstep" train lenet5 digits -b 64 --no-eval --no-record --seed 5 -i 100000 --sync ps --run "$work/t" --log-every 1 >"out.$r" 2>"err.$r" </dev/null &
        node[$r]=$!
        pids+=("${node[$r]}")
    done
    eventually has_lines "$work/t/metrics.jsonl" 5
    kill -TERM "${node[0]}"
    end_of 0
    equal 'ps: torchrun, SIGTERM: exit code of rank 0' "$code" 75
    end_of 1
    equal 'ps: torchrun, SIGTERM: exit code of rank 1' "$code" 75
    refused 'ps: another machine without a key' 'there is no key' "${served[@]}" --sync ps --nodes 2 --rank 1 --master 10.0.0.1:4711
    refused 'ps: a resumed run whose nodes were not told' 'give that on every node' --resume "$work/t" --nodes 2 --rank 0 --master "127.0.0.1:$port"
}

"part_$part"
finish
