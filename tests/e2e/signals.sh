#!/usr/bin/env bash
# signals.sh LOCKSTEP: stopping and saving on request, and which checkpoints a run leaves.
#
# SIGINT and SIGTERM: a checkpoint, exit code 75, and the resumed run equals the unbroken one. A second signal ends at once.
# SIGUSR1: a checkpoint, and on. --checkpoint-every N, epoch, none; --keep; the links latest and best.
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"

cat >net.net <<'END'
model net
input any
conv conv1 8 5
bn bn1
relu
maxpool 2
dropout 0.1
flatten
linear fc classes
END
run=(./net.net fake:1x28x28:10:640 -b 32 --shards 4 --epochs 40 -p 5 -t 2)

train "${run[@]}" --run whole
equal 'the unbroken run' "$code $(field steps)" '0 800'
hash=$(field weights_hash)

same_as_whole() { # WHAT RUN
    equal "$1: weights" "$(field weights_hash "$2/result.json")" "$hash"
    metrics_of "$2" >a
    metrics_of whole >b
    same_file "$1: metrics" a b
    tensors_of "$(newest_of "$2")" >a
    tensors_of "$(newest_of whole)" >b
    same_file "$1: last checkpoint" a b
}

# --- stop ---
for signal in INT TERM; do
    background "${run[@]}" --run "stop-$signal" --checkpoint-every none
    until_true 20 has_lines "stop-$signal/metrics.jsonl" 3 || bad "SIG$signal: no step was made: $(cat err.bg)"
    begin=$(date +%s%N)
    # A job in the background ignores SIGINT when the shell has no job control, unless the program asks for it: ours does.
    kill -"$signal" "$pid"
    wait "$pid"
    code=$?
    ms=$((($(date +%s%N) - begin) / 1000000))
    cp err.bg err
    one_line_error "SIG$signal" 75 "stopped by SIG$signal after step"
    if [ $ms -lt 5000 ]; then ok "SIG$signal: ended after $ms ms"; else bad "SIG$signal: ended only after $ms ms"; fi
    step=$(sed -n 's/.*after step \([0-9]*\);.*/\1/p' err)
    equal "SIG$signal: the checkpoint is of step $step" "$(basename "$(newest_of "stop-$signal")")" \
        "$(printf 'step-%08d.safetensors' "${step:-0}")"
    equal "SIG$signal: --json says where it stopped" "$(field steps out.bg)" "$step"
    # That run wrote no checkpoints but at its end, so its last one says nothing; the resumed one is to leave the usual ones.
    train "${run[@]}" --run "stop-$signal" --resume auto
    equal "SIG$signal, resumed: exit code" "$code" 0
    same_as_whole "SIG$signal, resumed" "stop-$signal"
done

# Stopped many times.
stops=0
until [ -f often/result.json ] || [ $stops -ge 30 ]; do
    lines=$(($(cat often/metrics.jsonl 2>/dev/null | wc -l) + 25))
    background "${run[@]}" --run often --resume auto
    until_true 20 eval "has_lines often/metrics.jsonl $lines || ! kill -0 $pid 2>/dev/null"
    kill -TERM "$pid" 2>/dev/null
    wait "$pid"
    code=$?
    if [ $code -eq 75 ]; then stops=$((stops + 1)); elif [ $code -ne 0 ]; then bad "stopped often: exit $code: $(cat err.bg)"; break; fi
done
if [ $stops -ge 2 ]; then ok "stopped $stops times"; else bad "stopped only $stops times: nothing was tested"; fi
same_as_whole 'stopped often' often

# At the terminal: a hint what to type.
"$lockstep" train "${run[@]}" --run hint >out.bg 2>err.bg </dev/null &
pid=$!
pids+=("$pid")
until_true 20 has_lines hint/metrics.jsonl 3
kill -INT "$pid"
wait "$pid"
equal 'SIGINT without --json: exit code' $? 75
has 'SIGINT without --json: the way on' out.bg '--run hint --resume auto'

# Signals before the first step: a checkpoint of step 0 or nothing, but no harm.
for delay in 0.01 0.03; do
    rm -rf early
    background "${run[@]}" --run early
    sleep $delay
    kill -TERM "$pid"
    wait "$pid"
    code=$?
    if [ $code -ne 75 ] && [ $code -ne 143 ]; then bad "SIGTERM after $delay s: exit $code: $(cat err.bg)"; fi
    train "${run[@]}" --run early --resume auto -i 20
    equal "SIGTERM after $delay s, then resumed: exit code, steps" "$code $(field steps)" '0 20'
done

# The second signal does not wait. A step of this network takes long on the reference backend.
cat >slow.net <<'END'
model slow
input any
conv conv1 64 3 pad=1
relu
conv conv2 64 3 pad=1
relu
globalavgpool
flatten
linear fc classes
END
background ./slow.net fake:3x64x64:10:2048 -b 2048 --shards 4 --epochs 9 --device ref -t 2 --run slow --no-eval
until_true 20 [ -f slow/manifest.json ]
sleep 0.3
kill -TERM "$pid"
sleep 0.2
if kill -0 "$pid" 2>/dev/null; then ok 'the first SIGTERM waits for the step'; else bad 'the slow run has already ended'; fi
begin=$(date +%s%N)
kill -TERM "$pid"
wait "$pid"
code=$?
ms=$((($(date +%s%N) - begin) / 1000000))
equal 'the second SIGTERM: exit code' $code 143
if [ $ms -lt 1000 ]; then ok "the second SIGTERM: ended after $ms ms"; else bad "the second SIGTERM: ended only after $ms ms"; fi

# --- SIGUSR1 ---
background "${run[@]}" --run usr --checkpoint-every none
until_true 20 has_lines usr/metrics.jsonl 3
kill -USR1 "$pid"
has_checkpoint() { [ -n "$(newest_of usr)" ]; }
if until_true 5 has_checkpoint; then ok "SIGUSR1: $(basename "$(newest_of usr)")"; else bad 'SIGUSR1: no checkpoint'; fi
saved=$(newest_of usr)
if kill -0 "$pid" 2>/dev/null; then ok 'SIGUSR1: training goes on'; else bad 'SIGUSR1: the run has ended'; fi
wait "$pid"
equal 'SIGUSR1: exit code' $? 0
equal 'SIGUSR1: weights' "$(field weights_hash usr/result.json)" "$hash"
train "${run[@]}" --run usr2 --resume "$saved"
equal "SIGUSR1: resumed from its checkpoint" "$code $(field weights_hash)" "0 $hash"

# --- which checkpoints ---
files() { (cd "$1/checkpoints" && echo step-*) | sed 's/step-0*//g; s/\.safetensors//g'; }
few=(./net.net fake:1x28x28:10:320 -b 32 --shards 4 --epochs 3 -p 5)
train "${few[@]}" --run every-epoch --no-eval --keep 9
equal '--checkpoint-every epoch' "$(files every-epoch)" '10 20 30'
train "${few[@]}" --run every-4 --checkpoint-every 4 --no-eval --keep 99
equal '--checkpoint-every 4' "$(files every-4)" '4 8 12 16 20 24 28 30'
train "${few[@]}" --run every-4-two --checkpoint-every 4 --no-eval
equal '--checkpoint-every 4, the last two' "$(files every-4-two)" '28 30'
train "${few[@]}" --run one --checkpoint-every 4 --no-eval --keep 1
equal '--keep 1' "$(files one)" '30'
train "${few[@]}" --run none --checkpoint-every none
equal '--checkpoint-every none' "$(files none)" '*'
equal '--checkpoint-every none: the result is there' "$(field weights_hash none/result.json)" \
    "$(field weights_hash every-4/result.json)"
train "${few[@]}" --run within --no-eval -i 13 --keep 9
equal 'the end within an epoch is saved' "$(files within)" '10 13'
equal 'latest leads to the newest' "$(readlink every-4/checkpoints/latest.safetensors)" step-00000030.safetensors
if [ -e every-4/checkpoints/best.safetensors ]; then bad 'best without evaluation'; else ok 'no best without evaluation'; fi

# best: the step with the highest accuracy on the test data, the first of equals; it survives --keep.
best_of() { python3 - "$1" <<'END'
import json, sys
best = (-1, 0)
for line in open(sys.argv[1] + "/metrics.jsonl"):
    m = json.loads(line)
    if m["split"] == "test" and m["accuracy"] > best[0]:
        best = (m["accuracy"], m["step"])
print("step-%08d.safetensors" % best[1])
END
}
train ./net.net fake:1x28x28:10:320 -b 32 --shards 4 --epochs 8 --lr 0.5 --keep 1 --run best1
train ./net.net fake:1x28x28:10:320 -b 32 --shards 4 --epochs 8 --lr 0.5 --keep 1 --run best2 --checkpoint-every 7
for one in best1 best2; do
    equal "$one leads to the best" "$(readlink $one/checkpoints/best.safetensors)" "$(best_of $one)"
    if [ -s $one/checkpoints/best.safetensors ]; then ok "$one is kept"; else bad "$one is gone: $(ls $one/checkpoints)"; fi
done
mv net.net away.net
"$lockstep" eval best1 --json >out 2>err
equal 'eval takes the best, and the model from the checkpoint' "$(field step)" "$(best_of best1 | sed 's/step-0*//; s/\..*//')"

finish
