#!/usr/bin/env bash
# promise.sh LOCKSTEP: the promise as one table: however a job is spread, broken or slowed, a network ends with one hash.
#
# Rows: softmax, LeNet-5, the SVHN CNN and a small residual network with batch norm; among them dropout, augmentation, a clipped
# gradient, AdamW and label smoothing; group and layer norm with validation data, frozen layers and rates by name; an MLP, whose large layer is updated while its gradient is summed, but not over machines; compressed
# gradients and local SGD. Columns: threads, processes, machines (ranks that are told to be on different ones), the other
# MPI, nodes that are started by hand without any, a killed rank, another number of workers after it, and a slow machine that gets fewer shards.
# PROMISE_ROWS="norms mlp" in the environment: only these rows.
# test: timeout=3600
# shellcheck disable=SC2154,SC2086,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
need_mpi

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
    'other number' 'slow machine')

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
    esac
}

# Three nodes on two machines that are started one by one, without MPI.
by_hand() {
    local rank others=() port
    if ! "$lockstep" doctor 2>/dev/null | grep -q '^ok *messages'; then cell=skipped; return; fi
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

n_killed=0
table=()
for row in "${rows[@]}"; do
    reference='' marks=''
    for column in "${columns[@]}"; do
        begin=$(now_ms)
        cell_of "$row" "$column"
        for ((again = 0; again < 20; again++)); do # it was over too soon: once more
            if [[ $cell == *'was not killed'* ]]; then cell_of "$row" "$column"; fi
        done
        ms=$(($(now_ms) - begin))
        reference=${reference:-$cell}
        if [ "$cell" = "$reference" ]; then marks+=" same"; else marks+=" ${cell:0:4}"; fi
        if [ "$cell" = skipped ]; then skipped "$row, $column: no such MPI here"
        elif [ ${#cell} -eq 32 ]; then equal "$(printf '%-9s %-15s %s  %5d ms' "$row" "$column" "$cell" $ms)" "$cell" "$reference"
        else bad "$row, $column: $cell"
        fi
    done
    table+=("$(printf '%-9s %s %s' "$row" "$reference" "$marks")")
done
printf '\nOne hash per row, for: %s\n' "$(printf '%s, ' "${columns[@]}" | sed 's/, $//')"
printf '%s\n' "${table[@]}"
finish
