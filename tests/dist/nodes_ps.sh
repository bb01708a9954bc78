#!/usr/bin/env bash
# nodes_ps.sh LOCKSTEP PROGRAMS: a parameter server on nodes made on this machine: --nodes with --sync ps, async and ssp:K.
#
# The server is on node 1, and shares memory with the worker there; the weights are those of one process on any network, also a lossy one, and when a
# node is cut off in the middle of a step, a worker dies or sleeps; where a server is cut off the training ends, says so, and can be resumed.
# Nothing is left, also when the server is killed. (How fast the others are while a worker is down is measured in elastic.sh.)
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
patience=100
"$lockstep" server --keygen keys >out 2>err || skip_all "this build or machine has no ZeroMQ: $(head -n 1 err)"
common="lenet5 digits -b 64 --no-eval --no-record --seed 5 --lease 1 --timeout 60"
of_launch() { python3 -c "import json, sys; print(json.load(open('$work/r/manifest.json'))['launch'][sys.argv[1]])" "$1"; }
train() { # ARGS...
    rm -rf "$work/r"
    "$lockstep" train $common --run "$work/r" --json "$@" >out 2>err </dev/null
    code=$?
}

reference=$(hash_of -i 30) longer=$(hash_of -i 60)
train -i 30 --nodes 2 --procs-per-node 2 --sync ps
equal 'plain processes: exit code' $code 0
equal 'plain processes: weights' "$(field weights_hash)" "$reference"
has 'plain processes: said' err '2 nodes on this machine, 2 workers each: plain processes that count as machines'
equal 'plain processes: four workers' "$(value 'len(r["elastic"]["workers"])')" 4
equal 'plain processes: in the manifest' "$(of_launch nodes) $(of_launch network) $(of_launch is_shaped)" '2 None False'
has 'plain processes: a prediction first' err 'per step of 4 workers and 1 server (shared memory)'
has 'plain processes: predicted and measured at the end' err 'step: predicted '
foretold='0 < r["step_seconds"]["predicted"] < 10 and 0 < r["step_seconds"]["measured"] < 10 and r["step_seconds"]["predicted_alone"] > 0'
equal 'plain processes: both in the result' "$(value "$foretold")" True
train -i 30 --nodes 2 --sync async --momentum 0
equal 'async: foretold, too' "$(value "$foretold")" True
"$lockstep" train resnet-small fake:3x32x32:10:64 -b 8 -i 3 --no-eval --nodes 2 --sync ps --run "$work/bn" --json >out 2>err </dev/null
equal 'with batch norm: foretold' "$(value "$foretold")" True
equal 'with batch norm: the rehearsal leaves no trace in the weights' "$(field weights_hash)" \
    "$("$lockstep" train resnet-small fake:3x32x32:10:64 -b 8 -i 3 --no-eval --run "$work/bn1" --json 2>err </dev/null | field weights_hash /dev/stdin)"
"$lockstep" train $common --run "$work/w" -i 30 -w 2 --sync ps --json >out 2>err </dev/null
equal 'workers that are no nodes: nothing is foretold' "$(value 'r["step_seconds"]')" None
train -i 30 --nodes 2 --sync ps --mpi-args -x
one_line_error 'no mpirun, no arguments for it' 2 '--mpi-args does not go with --sync ps'

train -i 30 --nodes 3 --network 1gbit,0.1ms --sync ps
equal 'a network: weights' "$(field weights_hash)" "$reference"
if grep -q 'cannot be had here' err; then
    has 'no namespaces: said' err '--network 1gbit,0.1ms cannot be had here'
    note "no network namespaces here: $(grep -m 1 'cannot be had' err)"
    finish
fi
# Whose sums and parameters lay in the server's memory, and whether it sent no more than a few words for a push. LeNet-5 has 61,706 sums.
beside() { value 'sorted((w["host"], w["shares_memory"], w["bytes_sent"] < 1000 * w["pushes"]) for w in r["elastic"]["workers"])'; }
first="('node1', True, True)" second="('node2', False, False)" third="('node3', False, False)"
train -i 30 --nodes 1 --network 1gbit,0.1ms --sync ps
equal 'one node: weights' "$(field weights_hash)" "$reference"
equal 'one node: its worker shares memory with the server' "$(beside)" "[$first]"
has 'one node: foretold as such' err 'per step of 1 worker and 1 server (shared memory)'
train -i 30 --nodes 2 --network 1gbit,0.1ms --sync ssp:0
equal 'ssp:0: weights' "$(field weights_hash)" "$reference"
equal 'ssp:0: the worker beside the server shares memory with it' "$(beside)" "[$first, $second]"
train -i 30 --nodes 3 --network 1gbit,0.1ms --sync ps --servers 3
equal 'three servers: weights' "$(field weights_hash)" "$reference"
equal 'three servers: the worker beside the first shares memory with it' "$(beside)" "[$first, $second, $third]"
has 'three servers: a prediction first' err 'per step of 3 workers and 3 servers (network: '
equal 'three servers: one on each node, in this order' "$(value '[s["host"] for s in r["elastic"]["each_server"]]')" "['node1', 'node2', 'node3']"
train -i 30 --nodes 3 --network 1gbit,0.1ms --sync ps
has 'a network: said' err '3 nodes on this machine, 1 worker each, in network namespaces joined by: 1 Gbit/s, 0.1 ms'
has 'a network: a prediction first' err 'per step of 3 workers and 1 server (network: '
equal 'a network: both in the result' "$(value "$foretold")" True
has 'a network: the server is on the first node' err 'parameter server at 10.77.0.1:'
equal 'a network: a worker on each node' "$(value 'sorted(w["host"] for w in r["elastic"]["workers"])')" "['node1', 'node2', 'node3']"
equal 'a network: the worker beside the server shares memory with it' "$(beside)" "[$first, $second, $third]"
equal 'a network: in the manifest' "$(of_launch nodes) $(of_launch network) $(of_launch is_shaped)" '3 1gbit,0.1ms True'
equal 'a network: what travelled' "$(value 'r["bytes_sent"] == sum(w["bytes_sent"] + w["bytes_received"] for w in r["elastic"]["workers"]) > 1e6')" True
train -i 30 --nodes 2 --procs-per-node 2 -t 1 --network 1gbit,0.1ms --sync ps
equal 'two workers a node: weights' "$(field weights_hash)" "$reference"
has 'two workers a node: said' err 'the 2 workers of a machine are one process of 2 threads'
equal 'two workers a node: one process each, which pushes for both' \
    "$(value 'sorted((w["host"], w["threads"]) for w in r["elastic"]["workers"])')" "[('node1', 2), ('node2', 2)]"
train -i 30 --nodes 2 --procs-per-node 2 --network 1gbit,0.1ms --sync async --momentum 0
equal 'two workers a node, async: four processes, two share memory with the server' "$(beside)" "[$first, $first, $second, $second]"
train -i 30 --nodes 2 --network 1gbit,0.1ms,1% --sync ps
equal '1 % of the packets lost: weights' "$(field weights_hash)" "$reference"
# A node is held back on the clock. Where the cores are so busy that the other one hardly runs either, only more of it shows.
does_less() { value '(lambda s: s["node2"] < s["node1"])({w["host"]: w["shards"] for w in r["elastic"]["workers"]})'; }
for slow in 5 20 80; do
    train -i 60 --nodes 2 --network 1gbit,0.1ms --sync ps --slow 2:$slow
    equal 'a slow node: weights' "$(field weights_hash)" "$longer"
    has 'a slow node: said' err "node 2 is held back to 1/$slow of its speed"
    if [ "$(does_less)" = True ]; then break; fi
done
equal "a slow node ($slow) does less" "$(does_less)" True
foretold_within='1 / 3 < r["step_seconds"]["predicted"] / r["step_seconds"]["measured"] < 3'
train -i 30 --nodes 2 --network 10mbit,15ms --sync ps # the far worker's parameters and sums pass the wire, one after the other
equal '10 Mbit/s and 15 ms take their time' "$(value '(lambda w: r["train_seconds"] >= max(w["pushes"] * 0.03, (w["bytes_sent"] + w["bytes_received"]) * 8 / 20e6) and
    w["pushes"] > 0)([w for w in r["elastic"]["workers"] if w["host"] == "node2"][0])')" True
equal 'where the wire decides it is foretold' "$(value "$foretold_within")" True

# --- faults ---

begin() { # NAME ARGS...: a job in the background; its number in pid, its words in err.bg
    name=$1
    shift
    rm -rf "${work:?}/$name"
    job $common --run "$work/$name" --log-every 1 "$@"
    eventually at_step 5 || bad "$name: no steps: $(head -c 600 err.bg)"
}
steps() { wc -l <"$work/$name/metrics.jsonl"; }
worker_on() { # K: the worker of node K
    local one
    for one in $(pgrep -P "$pid"); do
        if tr '\0' '\n' 2>/dev/null <"/proc/$one/environ" | grep -qx "LOCKSTEP_NODE=node$1" && [ "/proc/$one/exe" -ef "$lockstep" ] &&
            tr '\0' ' ' <"/proc/$one/cmdline" | grep -q -- '--server'; then echo "$one"; fi
    done
}
ends_well() { # WHAT: with the reference
    job_end
    equal "$1: exit code" "$code" 0
    equal "$1: weights" "$(field weights_hash)" "$reference"
}
reference=$(hash_of -i 150)

begin cut -i 150 --nodes 3 --network 1gbit,0.1ms --sync ps
cut=$(worker_on 3)
nsenter -t "$cut" -n "$lockstep" train --server "$(sed -n 's/^parameter server at \([^ ]*\) .*/\1/p' err.bg)" >out 2>err </dev/null
code=$?
one_line_error 'who was not started by the server needs a key' 2 'there is no key'
nsenter -t "$cut" -n ip link set eth0 down
eventually grep -q 'on node3 .* has not answered for 1 s' err.bg
equal 'cut off: noticed by its lease' "$?" 0
before=$(steps)
eventually at_step $((before + 10))
equal 'cut off: the others go on' "$?" 0
nsenter -t "$cut" -n ip link set eth0 up
ends_well 'a node cut off and back again'

# With several servers a part of the parameters is cut off, too: the training ends, and goes on from its checkpoint.
begin parted --schedule constant --epochs 100000 --nodes 3 --network 1gbit,0.1ms --sync ps --servers 3 --checkpoint-every 10 --timeout 3
eventually has_checkpoint "$work/parted" || bad "no checkpoint: $(head -c 600 err.bg)"
nsenter -t "$(worker_on 3)" -n ip link set eth0 down
job_end
equal 'a server cut off: exit code' "$code" 6
if grep -qE 'server 2 of 3 on node3|no word from server 2 at 10.77.0.3' err; then ok 'a server cut off: it is named'
else bad "a server cut off: it is not named: $(head -c 900 err)"; fi
newest=$(basename "$(newest_of "$work/parted")" .safetensors)
until=$((10#0${newest#step-} + 20))
"$lockstep" train --resume "$work/parted" -i $until --timeout 60 --json >out 2>err </dev/null
equal 'a server cut off: resumed: weights' "$(field weights_hash)" "$(hash_of -i $until --schedule constant --epochs 100000)"

begin dead -i 150 --nodes 3 --network 1gbit,0.1ms --sync ps
kill -KILL "$(worker_on 3)"
kill -STOP "$(worker_on 2)"
eventually grep -q 'on node2 .* has not answered for 1 s' err.bg
kill -CONT "$(worker_on 2)"
ends_well 'one worker killed, one asleep'
has 'a dead worker is named' err 'worker process 2 on node3'

begin again -i 150 --nodes 2 --procs-per-node 2 --network 1gbit,0.1ms --sync ps --max-restarts 2
equal 'two workers a node: one process to kill' "$(worker_on 2 | wc -l)" 1
kill -KILL "$(worker_on 2)"
kill -KILL "$(worker_on 1)" # amid memory that it shares with the server
ends_well 'the workers of a node killed and started again'
has 'they are named' err 'worker process 1 on node2'
has 'the one beside the server, too' err 'worker process 0 on node1'
equal 'they were started again' "$(grep -c 'started again' err)" 2

# --- nothing is left ---

begin stopped -i 100000 --nodes 2 --network 1gbit,1ms --sync ps --checkpoint-every 10
inhabitants() { pgrep -f -- '--server 10.77.0.1' | while read -r one; do [ "$(readlink "/proc/$one/ns/net")" = "$1" ] && echo "$one"; done; }
network=$(readlink "/proc/$(worker_on 2)/ns/net")
differs 'the nodes have networks of their own' "$network" "$(readlink "/proc/$pid/ns/net")"
kill -INT "$pid"
job_end
equal 'Ctrl-C: exit code' "$code" 75
none_left() { [ -z "$(inhabitants "$network")" ]; }
eventually none_left
equal 'Ctrl-C: nobody is left on the nodes' "$?" 0
"$lockstep" train --resume "$work/stopped" -i 10 --json >out 2>err </dev/null
has 'a resumed run has its nodes again' err 'in network namespaces joined by: 1 Gbit/s, 1 ms'

begin killed -i 100000 --nodes 2 --network 1gbit,1ms --sync ps
network=$(readlink "/proc/$(worker_on 2)/ns/net")
kill -KILL "$pid"
wait "$pid" 2>/dev/null
eventually none_left
equal 'the server is killed: nobody is left on the nodes' "$?" 0
leaves_nothing 'the server is killed' "$work/killed"
finish
