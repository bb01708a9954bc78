#!/usr/bin/env bash
# evalstop.sh LOCKSTEP: a signal while the epoch is evaluated. The run stops within a batch of the evaluation, with a checkpoint and exit
# code 75; the resumed run evaluates that epoch and ends with the metrics, the weights and the last checkpoint of an unbroken run.
# For one process, for two and for a parameter server with two; at the end of an epoch, on test data or --validation, and at the end of a
# run that -i cuts short.
# test: cost=100
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"

# Few pictures to train on and many to test: nearly all of the time is evaluation. More of them for jobs of several processes, which a signal reaches later.
cat >net.net <<'EOF'
model net
input any
conv conv1 48 3 pad=1
relu
conv conv2 48 3 pad=1
relu
globalavgpool
flatten
linear fc classes
EOF
python3 "$here/pictures.py" pics 48 480
python3 "$here/pictures.py" more 48 1600
options=(--resize 12 -b 32 --shards 2 -p 1 --device ref)
run=(./net.net folder:pics "${options[@]}") job=(./net.net folder:more "${options[@]}")
train "${run[@]}" -i 1 --no-eval --run pictures
[ "$code" -eq 0 ] || { grep -q 'png' err && skip_all "this build reads no pictures"; bad "the first step: $(cat err)"; finish; }

is_evaluating() { grep -q "\"step\": $1, .*\"split\": \"train\"" "$2/metrics.jsonl" 2>/dev/null || is_gone "$pid"; } # it failed: told below

# stop_at WHAT STEP SIGNAL ARGS...: the signal comes right after STEP, the last before an evaluation on $split
split='test'
stop_at() {
    local what=$1 step=$2 signal=$3 _
    shift 3
    for _ in {1..8}; do # the evaluation may be over before the signal comes, when the machine is busy
        rm -rf stopped
        background "$@" --run stopped
        eventually is_evaluating "$step" stopped
        kill -"$signal" "$pid"
        wait "$pid"
        code=$?
        grep -qs "\"step\": $step, .*\"split\": \"$split\"" stopped/metrics.jsonl || break
    done
    cp err.bg err
    one_line_error "$what" 75 "after step $step; checkpoint written"
    if grep -q "\"step\": $step, .*\"split\": \"\($split\|epoch\)\"" stopped/metrics.jsonl; then bad "$what: the evaluation was not cut short"; else ok "$what: the evaluation was cut short"; fi
    equal "$what: the checkpoint" "$(basename "$(newest_of stopped)")" "$(printf 'step-%08d.safetensors' "$step")"
    train "$@" --run stopped --resume auto
    equal "$what, resumed: exit code, weights" "$code $(field weights_hash)" "0 $(field weights_hash whole/result.json)"
    metrics_of stopped >a
    metrics_of whole >b
    same_file "$what, resumed: metrics" a b
    tensors_of "$(newest_of stopped)" | sed 's/"sync":"ps"/"sync":"allreduce"/' >a # by whom it was computed is written there
    tensors_of "$(newest_of whole)" >b
    same_file "$what, resumed: last checkpoint" a b
}

train "${run[@]}" --epochs 2 --run whole
stop_at 'the first epoch' 2 INT "${run[@]}" --epochs 2 -t 2
for how in '--compress 8' '--sync local:2'; do # what shards carry from step to step
    rm -rf whole
    # shellcheck disable=SC2086 # two words
    train "${run[@]}" --epochs 2 $how --run whole
    # shellcheck disable=SC2086
    stop_at "$how" 2 TERM "${run[@]}" --epochs 2 $how -t 2
done
rm -rf whole
python3 "$here/pictures.py" others 480 2
train "${run[@]}" --epochs 1 --validation others/train --no-eval --run whole
split=validation
stop_at '--validation' 2 TERM "${run[@]}" --epochs 1 --validation others/train --no-eval -t 2
split='test'
rm -rf whole
train "${run[@]}" --epochs 1 --run whole
stop_at 'the last epoch' 2 HUP "${run[@]}" --epochs 1 -t 2
rm -rf whole
train "${run[@]}" --epochs 2 -i 3 --eval-every 0 --run whole
stop_at 'the end by -i' 3 INT "${run[@]}" --epochs 2 -i 3 --eval-every 0 -t 2
if [ -e "$(dirname "$lockstep")/lockstep-openmpi.so" ] && command -v mpirun >/dev/null; then
    rm -rf whole
    train "${job[@]}" --epochs 2 --run whole
    stop_at 'two workers' 2 TERM "${job[@]}" --epochs 2 -t 1 -w 2
else
    skipped 'two workers: no MPI here'
fi
if "$lockstep" server --keygen keys >out 2>err; then
    rm -rf whole
    train "${job[@]}" --epochs 1 --run whole
    stop_at 'a parameter server' 2 TERM "${job[@]}" --epochs 1 -t 1 -w 2 --sync ps
else
    skipped "a parameter server: this build or machine has no ZeroMQ: $(head -n 1 err)"
fi
finish
