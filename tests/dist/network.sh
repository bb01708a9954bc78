#!/usr/bin/env bash
# network.sh LOCKSTEP FOLDER [short|long]: jobs over a real network: three machines in network namespaces, shaped and cut.
#
# Jobs over a shaped network are `--nodes 3 --network`; what a host does that is cut off is tried with --hosts, over hosts of ./netns that outlive
# a job (FOLDER has the program made from wire.c, for kernels without netem). The weights are those of one process alone, whatever the network
# does to packets; a host that is cut off is noticed on both sides after the timeout and at most 2 s (of a machine that has time), and writes nothing; with
# restarts the job goes on without it and ends with the same weights; so it does when MPI's network is blocked from the start.
# short: 1 Gbit/s, a blocked host, one that vanishes. long: also partitions, 10 Gbit/s, delay, loss, reordering, a stopped rank, MPICH.
# test: timeout=3600
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
form=${3:-short}
wire=$programs/wire
netns=$dist/netns
reason=$("$netns" try "$wire" 2>&1) || skip_all "${reason#netns: }"
command -v nft >/dev/null || skip_all "nft is not installed (package nftables)"
has_mpi openmpi || skip_all "Open MPI is not installed"

net=n$((BASHPID % 100000))h
trap '"$netns" down $net; clean_up_jobs' EXIT
"$netns" up $net 3 "$wire" || { bad 'the network could not be made'; finish; }
note "shaped by $(cat /run/lockstep-netns/$net/kind)"
export LOCKSTEP_RSH=$dist/netns-rsh
timeout=20 # also the longest wait in a start, which probes the network while all hosts and the wire share two cores
args=(lenet5 digits -b 32 --shards 6 --no-eval --schedule constant --checkpoint-every 10 -p 1 -q)
steps=(-i 40)
tcp="--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0"
reference=$(hash_of "${args[@]}" "${steps[@]}")

# The job over all hosts, begun on the first. A process of it becomes the next: its number is the launcher's.
everywhere=("$netns" run "${net}1" "$lockstep" train "${args[@]}" --hosts "${net}1,${net}2,${net}3" --json)
over() { "${everywhere[@]}" "${steps[@]}" --timeout 120 "$@"; }
start_over() {
    "${everywhere[@]}" --timeout $timeout "$@" >out.bg 2>err.bg </dev/null &
    pid=$!
    pids+=("$pid")
}

# The product's own nodes, one job for each shape. (Their remote shell is the program itself.)
shaped() { # SHAPE WHAT ARGS...
    local shape=$1 what=$1${2:+, $2} begin
    shift 2
    rm -rf "$work/r"
    begin=$(now_ms)
    env -u LOCKSTEP_RSH "$@" "$lockstep" train "${args[@]}" "${steps[@]}" --timeout 120 --json --nodes 3 --network "$shape" --run "$work/r" >out 2>err </dev/null
    equal "$what: exit code" $? 0
    if grep -q 'cannot be had' err; then bad "$what: not shaped: $(head -c 300 err)"; fi
    equal "$what: weights, after $(($(now_ms) - begin)) ms, $(field bytes_sent) bytes sent" "$(field weights_hash)" "$reference"
}

shaped 1gbit,0.1ms ''
if [ "$form" = long ]; then
    shaped 10gbit,0.1ms ''
    shaped 1gbit,5ms ''
    shaped 1gbit,0.1ms,1% ''
    if has_mpi mpich; then shaped 1gbit,0.1ms MPICH LOCKSTEP_MPI=mpich; fi
    # What --network does not have: packets that overtake each other.
    "$netns" shape $net delay=50ms jitter=20ms reorder=5%
    over --run "$work/reorder" --mpi-args="$tcp" >out 2>err </dev/null
    equal 'packets out of order: exit code' $? 0
    equal 'packets out of order: weights' "$(field weights_hash)" "$reference"
fi

# predict between hosts: what the shaping gives, 100 Mbit/s of which 94 % carries data: so slow that the wire keeps up on a busy machine
"$netns" shape $net rate=100mbit delay=5ms
"$netns" run "${net}1" "$lockstep" predict lenet5 -b 32 -t 1 --seconds 0.1 --hosts ${net}1,${net}2 --mpi-args="$tcp" --json >out 2>err </dev/null
equal 'predict --hosts: exit code' $? 0
measured=$(python3 -c "import json; n = json.load(open('out'))['networks'][0]; print(round(n['bytes_per_second'] / 1e6, 1), round(n['latency_seconds'] * 1e3, 2))")
# shellcheck disable=SC2086 # two words
if python3 -c "import sys; b, l = map(float, sys.argv[1:]); sys.exit(not (4 <= b <= 15 and 5 <= l <= 50))" $measured; then
    ok "predict --hosts measures the network: $measured (MB/s, ms)"
else bad "predict --hosts: $measured (MB/s, ms), expected about 11.7 and 5: $(head -c 300 err)"; fi

# Over a long line a sum has too little under way to fill it; what is measured is still the line. (The wire program gives a tenth of it
# on a busy machine; a sum would get a hundredth.)
"$netns" shape $net rate=1gbit delay=20ms
"$netns" run "${net}1" "$lockstep" predict lenet5 -b 32 -t 1 --seconds 0.1 --hosts ${net}1,${net}2 --mpi-args="$tcp" --json >out 2>err </dev/null
equal 'predict over 20 ms: exit code' $? 0
measured=$(python3 -c "import json; n = json.load(open('out'))['networks'][0]; print(int(n['bytes_per_second'] / 1e6), round(n['latency_seconds'] * 1e3, 2))")
# shellcheck disable=SC2086 # two words
if python3 -c "import sys; b, l = map(float, sys.argv[1:]); sys.exit(not (8 <= b <= 130 and 20 <= l <= 60))" $measured; then
    ok "predict over 20 ms measures the network: $measured (MB/s, ms)"
else bad "predict over 20 ms: $measured (MB/s, ms), expected at most 117 and about 20: $(head -c 300 err)"; fi

# MPI's network is blocked from the start, and the remote shell is not: mpirun would wait for minutes.
"$netns" shape $net rate=1gbit delay=0.1ms
"$netns" block $net 3
"${everywhere[@]}" "${steps[@]}" --timeout 10 --max-restarts 1 --run "$work/blocked" --mpi-args="$tcp" >out 2>err </dev/null
equal 'a host blocked at the start: exit code' $? 0
has 'a host blocked at the start: named' err "did not start within the timeout of 10 s"
has 'a host blocked at the start: left out' err "host ${net}3 does not answer: going on without it"
equal 'a host blocked at the start: weights' "$(field weights_hash)" "$reference"
equal 'a host blocked at the start: workers' "$(field workers)" 2
"$netns" heal $net 3

is_told() { grep -q '^lockstep: rank ' err.bg; }
# Slow enough for a fault in the middle: a step takes four times 20 ms at least.
begin_over() { # RUN ARGS...
    "$netns" shape $net rate=1gbit delay=20ms
    run=$1
    start_over --run "$@"
    eventually has_checkpoint "$run" || bad "$(basename "$run"): no checkpoint: $(head -c 300 err.bg)"
}
all_know() { is_told && is_gone "$near" && is_gone "$far"; }
# partition WHAT HOST RANK-CUT-OFF RANK-LEFT: cuts a host off; each side ends by itself
partition() {
    local what=$1 host=$2
    begin_over "$work/$3" --mpi-args="$tcp" --epochs 1000000
    far=$(rank_pid "$run" "$4") near=$(rank_pid "$run" "$5")
    "$netns" cut $net "$host"
    timed "$what: told, and the ranks on both sides ended" $timeout all_know
    newest=$(newest_of "$run")
    note "$(grep -m 1 '^lockstep: rank ' err.bg)"
    job_end
    equal "$what: exit code" "$code" 6
    equal "$what: no checkpoint since" "$(newest_of "$run")" "$newest"
    "$netns" heal $net "$host"
}
if [ "$form" = long ]; then
    partition 'host 3 cut off' 3 cut3 2 1
    partition 'the first host cut off' 1 cut1 0 2
fi

# A host vanishes and stays away: both sides end after the timeout, and the others go on.
begin_over "$work/vanish" --mpi-args="$tcp" --max-restarts 2 --epochs 1000000
far=$(rank_pid "$run" 1) near=$(rank_pid "$run" 2)
"$netns" cut $net 2
timed 'a host vanishes: told, and the ranks on both sides ended' $timeout all_know
"$netns" shape $net rate=1gbit delay=1ms
goes_on_without() { grep -q 'going on without it' err.bg && has_ranks "$run" 2; }
eventually goes_on_without
lines=$(wc -l <"$run/metrics.jsonl")
eventually has_lines "$run/metrics.jsonl" $((lines + 5))
kill -TERM "$pid"
job_end
equal 'a host vanishes: exit code after SIGTERM' "$code" 75
has 'a host vanishes: said' err "host ${net}2 does not answer: going on without it"
equal 'a host vanishes: workers at the end' "$(field workers)" 2
hash=$(field weights_hash)
equal 'a host vanishes: weights' "$(hash_of "${args[@]}" --epochs 1000000 -i "$(field steps)")" "$hash"
"$netns" heal $net 2

if [ "$form" = long ]; then
    begin_over "$work/stop" --mpi-args="$tcp" --epochs 1000000
    kill -STOP "$(rank_pid "$run" 1)"
    timed 'a remote rank stopped: told' $timeout is_told
    has 'a remote rank stopped: named' err.bg "rank 1 on ${net}2"
    job_end
    equal 'a remote rank stopped: exit code' "$code" 6
fi
"$netns" down $net
if ip netns list 2>/dev/null | grep -q "^$net"; then bad 'namespaces are left'; else ok 'no namespace is left'; fi
finish
