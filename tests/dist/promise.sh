#!/usr/bin/env bash
# promise.sh LOCKSTEP PROGRAMS [TRIALS]: the promise as one table: however a job is spread, broken or slowed, a network ends with one hash.
#
# Rows: softmax, LeNet-5, the SVHN CNN and a small residual network with batch norm; among them dropout, augmentation, a clipped
# gradient, AdamW and label smoothing; group and layer norm with validation data, frozen layers and rates by name; an MLP, whose large layer is updated while its gradient is summed, but not over machines; compressed
# gradients and local SGD. Columns: threads, processes, machines (ranks that are told to be on different ones), the other
# MPI, nodes that are started by hand without any, a killed rank, another number of workers after it, and a slow machine that gets fewer shards.
# A parameter server (ps): workers, two servers, a worker killed at a random step (TRIALS, 3), one that comes late, one slowed to a fifth, and
# the server killed and started again from its checkpoint. Training on a parameter server stands still while its only worker does, so what is
# to happen in the middle happens while that one is stopped, however quick the network and however busy the machine.
# PROMISE_ROWS="norms mlp" in the environment: only these rows; PROMISE_COLUMNS: only columns that match this pattern, and the first.
# test: timeout=3600 cost=300
# shellcheck disable=SC2154,SC2086,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
need_mpi
trials=${3:-3}

cat >residual.net <<'END'
model residual
input 3x16x16 fixed=no
block basic out
    keep x
    conv conv1 $out 3 pad=1 bias=no
    bn bn1
    relu
    conv conv2 $out 3 pad=1 bias=no
    bn bn2
    add x
    relu
end
conv conv1 8 3 pad=1 bias=no
bn bn1
relu
use basic layer1.0 out=8
conv down 16 3 stride=2 pad=1
bn bn2
use basic layer2.0 out=16
globalavgpool
flatten
dropout 0.1
linear fc classes
END

cat >norms.net <<'END'
model norms
input any
conv c1 16 3 pad=1
groupnorm g1 4
gelu
conv c2 16 3 pad=1 stride=2
layernorm l1
silu
layernorm l2 image=yes
adaptiveavgpool 3x3
flatten
linear f1 24
layernorm l3
tanh
linear f2 classes
END

rows=(${PROMISE_ROWS:-softmax lenet5 svhn-cnn residual norms mlp compress local})
declare -A line=(
    [softmax]="softmax digits -b 100 -i 150 --label-smoothing 0.1 --checkpoint-every 20"
    [lenet5]="lenet5 digits -b 64 -i 40 --optimizer adamw --crop-pad 2 --checkpoint-every 7"
    [svhn-cnn]="svhn-cnn fake:3x32x32:10:640 -b 16 --shards 4 -i 60 --flip --cutout 6 --mixup 0.2 --cutmix 1 --hue 0.1 --clip-norm 1 --checkpoint-every 9"
    [residual]="$work/residual.net fake:3x16x16:10:320 -b 48 --shards 7 -i 25 --nesterov --wd 5e-4 --crop-pad 2 --checkpoint-every 4"
    [norms]="$work/norms.net fake:3x16x16:10:320 -b 48 --shards 8 -i 25 --validation 0.2 --mixup 0.2 --cutmix 1 --freeze c1.*,g1.* --lr-of f2.*=x0.5 --checkpoint-every 4"
    [mlp]="mlp digits -b 64 -i 60 --checkpoint-every 7"
    [compress]="lenet5 digits -b 64 -i 40 --compress 8 --checkpoint-every 7"
    [local]="lenet5 digits -b 64 -i 40 --sync local:4 --checkpoint-every 7"
)

columns=('1 thread' '4 threads' '2 workers' '3 workers' '4 workers' '2 x 2 threads' '3 machines' '2 machines x 2' 'MPICH' 'by hand' 'killed'
    'other number' 'slow machine' 'ps 1 worker' 'ps 2 workers' 'ps 3 workers' 'ps 2 servers' 'ps killed' 'ps late' 'ps slowed'
    'ps restarted')
# What is not there, is tried with some networks only, or in another script: sync.sh has compressed gradients and local SGD with 2 and 4 workers and 3 machines.
is_left_out() { # ROW COLUMN
    case "$1, $2" in
        compress,*ps\ * | local,*ps\ *) return 0 ;; # other sums, and other steps
        compress,*' workers' | local,*' workers' | compress,*'3 machines' | local,*'3 machines') return 0 ;;
        'lenet5, 4 workers' | 'residual, 2 x 2 threads' | 'lenet5, ps 2 workers' | *'ps 3 workers') return 1 ;;
        *', 4 workers' | *', 2 x 2 threads' | *', ps 2 workers') return 0 ;;
        softmax,* | lenet5,* | residual,*) return 1 ;;
        *', ps '*) return 0 ;;
        *) return 1 ;;
    esac
}

# One cell: leaves its hash, or what went wrong, in `cell`.
cell_of() { # ROW COLUMN
    # shellcheck disable=SC2206 # words
    local args=(${line[$1]} --no-eval --timeout 300)
    rm -rf "$work/r" "$work/r.died"
    case $2 in
        '1 thread') cell=$(hash_of "${args[@]}" -t 1) ;;
        '4 threads') cell=$(hash_of "${args[@]}" -t 4) ;;
        '2 workers') cell=$(hash_of "${args[@]}" -w 2) ;;
        '3 workers') cell=$(hash_of "${args[@]}" -w 3) ;;
        '4 workers') cell=$(hash_of "${args[@]}" -w 4) ;;
        '2 x 2 threads') cell=$(hash_of "${args[@]}" -w 2 -t 2) ;;
        '3 machines') cell=$(hash_of "${args[@]}" -w 3 --mpi-args "$as machines 1 --") ;;
        '2 machines x 2') cell=$(hash_of "${args[@]}" -w 4 --mpi-args "$as machines 2 --") ;;
        MPICH) if has_mpi mpich; then cell=$(LOCKSTEP_MPI=mpich hash_of "${args[@]}" -w 2); else cell=skipped; fi ;;
        'by hand') by_hand "${args[@]}" ;;
        killed) killed "${args[@]}" ;;
        'other number') killed_and_resumed "${args[@]}" ;;
        'slow machine') slowed "${args[@]}" ;;
        ps*) if has_messages; then by_server "${2#ps }" "${args[@]}"; else cell=skipped; fi ;;
    esac
}

has_messages() { "$lockstep" doctor 2>/dev/null | grep -q '^ok *messages'; }

# Three nodes on two machines that are started one by one, without MPI.
by_hand() {
    local rank others=() port
    if ! has_messages; then cell=skipped; return; fi
    free_port
    for rank in 1 2; do
        LOCKSTEP_MACHINE=machine$((rank / 2)) "$lockstep" train "$@" --nodes 3 --rank $rank --master "127.0.0.1:$port" --run "$work/r" -q \
            >/dev/null 2>&1 </dev/null &
        others+=($!)
        pids+=($!)
    done
    cell=$(LOCKSTEP_MACHINE=machine0 hash_of "$@" --nodes 3 --rank 0 --master "127.0.0.1:$port" --run "$work/r")
    wait "${others[@]}"
}

# A rank, another one in each row, dies after the first checkpoint; the launcher starts the job again.
killed() {
    local rank=$((n_killed++ % 3))
    cell=$(hash_of "$@" -w 3 --max-restarts 2 --mpi-args "$as machines 2 -- dying $rank --" --run "$work/r")
    grep -q 'restart 1 of 2' err || cell="was not killed: $cell"
}

# The same without restarts, then resumed with fewer workers.
killed_and_resumed() {
    train "$@" -w 3 --mpi-args "$as dying 1 --" --run "$work/r"
    cell="was not killed: exit code $code"
    if [ "$code" -eq 6 ]; then cell=$(hash_of "$@" -w 2 --run "$work/r" --resume auto); fi
}

slowed() {
    cell=$(hash_of "$@" -w 2 --mpi-args "$as machines 1 -- slow 1 0.008 0.002 --" --run "$work/r")
}

# --- a parameter server ---

by_server() { # WHAT ARGS...
    local what=$1 trial
    shift
    case $what in
        *' worker' | *' workers') cell=$(hash_of "$@" -w "${what%% *}" --sync ps) ;;
        *' servers') cell=$(hash_of "$@" -w 2 --sync ps --servers "${what%% *}") ;;
        killed)
            local hashes=()
            for ((trial = 0; trial < trials; trial++)); do
                worker_killed "$@"
                hashes+=("$cell")
                if [ "$cell" != "${hashes[0]}" ]; then break; fi
            done ;;
        late) worker_late "$@" ;;
        slowed) worker_slowed "$@" ;;
        restarted) server_restarted "$@" ;;
    esac
}

lease=100 timeout=300
# Runs a worker a little at a time and looks while it stands still. 1: it went to the end meanwhile.
stopped_when() { # COMMAND...
    local end=$((SECONDS + patience))
    while kill -STOP "$pid" 2>/dev/null && ! "$@"; do
        if [ -s s.out ] || [ $SECONDS -ge $end ]; then kill -CONT "$pid"; return 1; fi
        kill -CONT "$pid"
        sleep 0.003
    done
    [ ! -s s.out ] && ! is_gone "$pid"
}
served() { # the server's hash, when it has ended well
    wait "$server"
    code=$?
    cell=$(field weights_hash s.out)
    if [ $code -ne 0 ]; then cell="exit code $code: $(head -c 300 s.err)"; fi
    wait "$pid" 2>/dev/null
}
at_random() { at_step $step; }

# A second worker comes while the first, its number in first, stands still amid a random step and keeps its shards. 1: it was over before, as told in cell.
second_comes() { # ARGS...
    serve s "$@"
    worker
    first=$pid step=$((1 + RANDOM % 12))
    if ! stopped_when at_random; then served; cell="it was over too soon: $cell"; return 1; fi
    worker
    eventually joined 2 || bad "nobody else joins: $(head -c 300 s.err s.workers)"
}
worker_killed() {
    second_comes "$@" || return
    kill -KILL "$first"
    wait "$first" 2>/dev/null
    served
    grep -q 'is gone at step' s.err || cell="nobody is gone: $cell"
}
worker_late() {
    second_comes "$@" || return
    kill -CONT "$first"
    served
    [ "$(value 'r["elastic"]["workers"][1]["joined_step"] > 0' s.out)" = True ] || cell="was not late: $cell"
}
worker_slowed() {
    serve s "$@"
    worker
    (while kill -STOP "$pid" 2>/dev/null; do sleep 0.008; kill -CONT "$pid"; sleep 0.002; done) 2>/dev/null &
    local slower=$! slow=$pid
    pids+=("$slower")
    eventually joined 1 || bad "nobody joins: $(head -c 300 s.err s.workers)"
    worker
    served
    { kill -KILL "$slower" && wait "$slower"; } 2>/dev/null
    kill -CONT "$slow" 2>/dev/null
    wait "$slow"
}
server_restarted() {
    serve s "$@"
    worker
    if ! stopped_when has_checkpoint "$work/s"; then served; cell="was not killed: $cell"; return; fi
    kill -KILL "$server"
    wait "$server" 2>/dev/null
    "$lockstep" server --resume "$work/s" --listen "$address" --json >s.out 2>s.err </dev/null &
    server=$!
    pids+=("$server")
    kill -CONT "$pid"
    served
    grep -q 'resumed from' s.err || cell="was not resumed: $cell"
}

n_killed=0
table=()
for row in "${rows[@]}"; do
    reference='' marks=''
    for column in "${columns[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        if [ -n "$reference" ] && [[ $column != ${PROMISE_COLUMNS:-*} ]]; then continue; fi
        if is_left_out "$row" "$column"; then marks+=' -'; continue; fi
        begin=$(now_ms)
        cell_of "$row" "$column"
        for ((again = 0; again < 20; again++)); do # it was over too soon: once more
            if [[ $cell == *'was not killed'* ]]; then cell_of "$row" "$column"; fi
        done
        ms=$(($(now_ms) - begin))
        reference=${reference:-$cell}
        if [ "$cell" = "$reference" ]; then marks+=" same"; else marks+=" ${cell:0:4}"; fi
        if [ "$cell" = skipped ]; then skipped "$row, $column: no such MPI here, or no ZeroMQ"
        elif [ ${#cell} -eq 32 ]; then equal "$(printf '%-9s %-15s %s  %5d ms' "$row" "$column" "$cell" $ms)" "$cell" "$reference"
        else bad "$row, $column: $cell"
        fi
    done
    table+=("$(printf '%-9s %s %s' "$row" "$reference" "$marks")")
done
printf '\nOne hash per row, for: %s\n' "$(printf '%s, ' "${columns[@]}" | sed 's/, $//')"
printf '%s\n' "${table[@]}"
finish
