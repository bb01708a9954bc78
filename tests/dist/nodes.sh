#!/usr/bin/env bash
# nodes.sh LOCKSTEP FOLDER: machines made on this one: --nodes as plain processes, and with --network as network namespaces.
#
# The weights are those of one process alone; ranks of different nodes have different networks and names, and packets need the time that
# was asked for; nothing is left, also when the launcher is killed; what cannot be is refused or said.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
args=(lenet5 digits -b 24 --shards 12 --no-eval --schedule constant)
reference=$(hash_of "${args[@]}" -q -i 10)

train() { # ARGS...
    rm -rf "$work/r"
    "$lockstep" train "${args[@]}" -i 10 --timeout 60 --run "$work/r" --json "$@" >out 2>err </dev/null
    code=$?
}
of_launch() { python3 -c "import json, sys; print(json.load(open('$work/r/manifest.json'))['launch'][sys.argv[1]])" "$1"; }

train -w 4 --nodes 2 --slow 2:1.1
equal '-w 4 --nodes 2: exit code' $code 0
equal '-w 4 --nodes 2 --slow 2:1.1: both workers of the node' "$(grep -c 'node 2 is held back' err)" 2
equal '-w 4 --nodes 2: weights' "$(field weights_hash)" "$reference"
has '-w 4 --nodes 2: said' err '2 nodes on this machine, 2 workers each: plain processes that count as machines'
has '-w 4 --nodes 2: they are machines' err 'on 2 machines'
equal '-w 4 --nodes 2: in the manifest' "$(of_launch nodes) $(of_launch network) $(of_launch is_shaped)" '2 None False'

refused() { # WHAT TEXT ARGS...
    local what=$1 text=$2
    shift 2
    train "$@"
    one_line_error "$what" 2 "$text"
}
refused 'workers that are no multiple' '--workers 4 cannot be shared out among --nodes 3' -w 4 --nodes 3
refused 'a contradiction' 'leave one out' -w 4 --nodes 2 --procs-per-node 3
refused 'a network without nodes' 'say how many, as --nodes 3 --network 1gbit,1ms' --network 1gbit,1ms
refused 'nodes and hosts' '--hosts names real ones' --nodes 2 --hosts a,b
refused 'an unknown network' 'such as 1gbit,0.1ms' --nodes 2 --network fast
refused 'too many nodes' 'at most 64' --nodes 65

if [ "$(id -u)" -ne 0 ]; then
    train --nodes 2 --network 1gbit,0.1ms
    equal 'not root: weights' "$(field weights_hash)" "$reference"
    has 'not root: said' err '--network 1gbit,0.1ms cannot be had here: only root can make networks; nothing is shaped'
    finish
fi
train --nodes 2 --network 1gbit,0.1ms
if grep -q 'cannot be had here' err; then
    equal 'no namespaces: weights' "$(field weights_hash)" "$reference"
    note "no network namespaces here: $(grep -m 1 'cannot be had' err)"
    finish
fi
equal 'namespaces: exit code' $code 0
equal 'namespaces: weights' "$(field weights_hash)" "$reference"
has 'namespaces: said' err 'in network namespaces joined by: 1 Gbit/s, 0.1 ms'
equal 'namespaces: in the manifest' "$(of_launch nodes) $(of_launch network) $(of_launch is_shaped)" '2 1gbit,0.1ms True'
if has_mpi mpich; then
    for k in 1 2 3; do # its own good-bye hung every third time
        LOCKSTEP_MPI=mpich train --nodes 2 --procs-per-node 2 --network 1GbE
        if grep -q 'MPICH looks for the networks' err; then
            equal 'MPICH where /sys does not show the nodes: exit code' $code 1
            has 'MPICH where /sys does not show the nodes: what to do' err 'LOCKSTEP_MPI=openmpi'
            break
        fi
        equal "namespaces, MPICH, two processes each, time $k: weights" "$(field weights_hash)" "$reference"
    done
fi

# Each of ten steps waits for packets there and back; what is sent needs its time, too.
train --nodes 2 --network 10mbit,15ms
if python3 -c "
import json, sys
r = json.load(open('out'))
line = r['bytes_sent'] / 2 * 8 / 10e6
sys.exit(not (r['train_seconds'] >= max(10 * 2 * 0.015, line) and r['bytes_sent'] > 100000))"; then ok '10 Mbit/s and 15 ms take their time'
else bad "10 Mbit/s and 15 ms: faster than the wire: $(head -c 600 out)"; fi

# Two networks and two names, none of them this machine's.
begin() {
    job "${args[@]}" -i 100000 --nodes 2 --network 1gbit,1ms --run "$1" --checkpoint-every 5
    eventually has_checkpoint "$1" || bad "$1: no checkpoint: $(head -c 600 err.bg)"
}
networks() { { readlink /proc/self/ns/net; for rank in 0 1; do readlink "/proc/$(rank_pid "$1" $rank)/ns/net"; done; } | sort -u | wc -l; }
names() { for rank in 0 1; do nsenter -u -t "$(rank_pid "$1" $rank)" hostname; done | tr '\n' ' '; }
begin "$work/stopped"
equal 'networks of two nodes and this machine' "$(networks "$work/stopped")" 3
equal 'names of two nodes' "$(names "$work/stopped")" 'node1 node2 '
kill -INT "$pid"
job_end
equal 'Ctrl-C: exit code' "$code" 75
leaves_nothing 'Ctrl-C' "$work/stopped"

begin "$work/killed"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
leaves_nothing 'the launcher is killed' "$work/killed"
in_nodes() { lsns -t net -n -o COMMAND 2>/dev/null | grep -c "$work/killed"; }
equal 'the launcher is killed: namespaces of the job' "$(in_nodes)" 0
"$lockstep" train --resume "$work/killed" -i 10 --json >out 2>err </dev/null
has 'a resumed run has its nodes again' err '2 nodes on this machine, 1 worker each, in network namespaces joined by: 1 Gbit/s, 1 ms'
finish
