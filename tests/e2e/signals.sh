#!/usr/bin/env bash
# signals.sh LOCKSTEP: stopping and saving on request, and which checkpoints a run leaves.
#
# SIGINT, SIGTERM and SIGHUP: a checkpoint, exit code 75, and the resumed run equals the unbroken one. A second signal ends at once.
# SIGUSR1: a checkpoint, and on. --checkpoint-every N, epoch, none; --keep; the links latest and best.
# shellcheck disable=SC2154,SC2086,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"

small_net net.net
# Never over by itself: a signal comes when it comes.
run=(./net.net fake:1x28x28:10:640 -b 32 --shards 4 --schedule constant --epochs 1000000 -p 5 -t 2)

# same_as_whole WHAT RUN STEPS: goes on to STEPS and is there as if nothing had been
same_as_whole() {
    train "${run[@]}" -i "$3" --run "$2" --resume auto
    equal "$1, resumed: exit code" "$code" 0
    rm -rf whole
    train "${run[@]}" -i "$3" --run whole
    equal "$1, resumed: weights" "$(field weights_hash "$2/result.json")" "$(field weights_hash)"
    metrics_of "$2" >a
    metrics_of whole >b
    same_file "$1, resumed: metrics" a b
    tensors_of "$(newest_of "$2")" >a
    tensors_of "$(newest_of whole)" >b
    same_file "$1, resumed: last checkpoint" a b
}

# --- stop ---
for signal in INT TERM HUP; do
    background "${run[@]}" --run "stop-$signal" --checkpoint-every none
    eventually has_lines "stop-$signal/metrics.jsonl" 3 || bad "SIG$signal: no step was made: $(cat err.bg)"
    # A job in the background ignores SIGINT when the shell has no job control, unless the program asks for it: ours does.
    kill -"$signal" "$pid"
    wait "$pid"
    code=$?
    cp err.bg err
    one_line_error "SIG$signal" 75 "stopped by SIG$signal after step"
    step=$(sed -n 's/.*after step \([0-9]*\);.*/\1/p' err)
    equal "SIG$signal: the checkpoint is of step $step" "$(basename "$(newest_of "stop-$signal")")" \
        "$(printf 'step-%08d.safetensors' "${step:-0}")"
    equal "SIG$signal: --json says where it stopped" "$(field steps out.bg)" "$step"
    same_as_whole "SIG$signal" "stop-$signal" $((step + 50))
done

# Stopped many times.
for ((stops = 0; stops < 5; stops++)); do
    lines=$(($(cat often/metrics.jsonl 2>/dev/null | wc -l) + 10))
    background "${run[@]}" --run often --resume auto
    eventually has_lines often/metrics.jsonl $lines
    kill -TERM "$pid"
    wait "$pid"
    code=$?
    note "stopped at step $(field steps out.bg)"
    [ $code -eq 75 ] || { bad "stopped often: exit $code: $(cat err.bg)"; break; }
done
same_as_whole "stopped $stops times" often $(($(field steps out.bg) + 50))

# At the terminal: a hint what to type.
"$lockstep" train "${run[@]}" --run hint >out.bg 2>err.bg </dev/null &
pid=$!
pids+=("$pid")
eventually has_lines hint/metrics.jsonl 3
kill -INT "$pid"
wait "$pid"
equal 'SIGINT without --json: exit code' $? 75
has 'SIGINT without --json: the way on' out.bg 'lockstep train --resume hint'

# Signals before the first step: a checkpoint of step 0 or nothing, but no harm.
is_program() { [ "$(readlink "/proc/$pid/exe")" = "$lockstep" ]; }
for moment in . early early/lock early/manifest.json; do
    rm -rf early
    background "${run[@]}" --run early
    eventually is_program
    eventually [ -e $moment ]
    kill -TERM "$pid"
    wait "$pid"
    code=$?
    if [ $code -ne 75 ] && [ $code -ne 143 ]; then bad "SIGTERM when there is $moment: exit $code: $(cat err.bg)"; fi
    steps=$(field steps out.bg)
    steps=$((${steps:-0} + 20))
    train "${run[@]}" --run early --resume auto -i $steps
    equal "SIGTERM when there is $moment, then resumed: exit code, steps" "$code $(field steps)" "0 $steps"
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
eventually [ -f slow/manifest.json ]
# Within the first step: what came before takes a fraction of a second of CPU.
has_computed() { local stat; read -r -a stat <"/proc/$pid/stat"; [ $((stat[13] / $(getconf CLK_TCK))) -ge 2 ]; }
has_taken() { grep -q '^ShdPnd:[[:space:]]*0*$' "/proc/$pid/status"; } # no signal is on its way
eventually has_computed
kill -TERM "$pid"
eventually has_taken
if is_gone "$pid"; then bad 'the slow run has already ended'; else ok 'the first SIGTERM waits for the step'; fi
kill -TERM "$pid"
wait "$pid"
equal 'the second SIGTERM: exit code' $? 143

# --- SIGUSR1 ---
background "${run[@]}" --run usr --checkpoint-every none
eventually has_lines usr/metrics.jsonl 3
kill -USR1 "$pid"
has_checkpoint() { [ -n "$(newest_of usr)" ]; }
if eventually has_checkpoint; then ok "SIGUSR1: $(basename "$(newest_of usr)")"; else bad 'SIGUSR1: no checkpoint'; fi
saved=$(newest_of usr)
lines=$(($(wc -l <usr/metrics.jsonl) + 3))
if eventually has_lines usr/metrics.jsonl $lines; then ok 'SIGUSR1: training goes on'; else bad 'SIGUSR1: training does not go on'; fi
cp "$saved" saved.safetensors
kill -TERM "$pid"
wait "$pid"
equal 'SIGUSR1, then SIGTERM: exit code' $? 75
same_as_whole 'SIGUSR1' usr $(($(field steps out.bg) + 50))
train "${run[@]}" --run usr2 --resume saved.safetensors -i "$(field steps usr/result.json)"
equal 'SIGUSR1: resumed from its checkpoint' "$code $(field weights_hash)" "0 $(field weights_hash usr/result.json)"

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

# best: the step with the highest accuracy on the validation data, of equals the lowest loss; it survives --keep.
best_of() { python3 - "$1" <<'END'
import json, sys
best = (-1, 0, 0)
for line in open(sys.argv[1] + "/metrics.jsonl"):
    m = json.loads(line)
    if m["split"] == "validation" and (m["accuracy"], -m["loss"]) > best[:2]:
        best = (m["accuracy"], -m["loss"], m["step"])
print("step-%08d.safetensors" % best[2])
END
}
train ./net.net fake:1x28x28:10:400 -b 32 --shards 4 --epochs 8 --lr 0.5 --keep 1 --validation 80 --run best1
train ./net.net fake:1x28x28:10:400 -b 32 --shards 4 --epochs 8 --lr 0.5 --keep 1 --validation 80 --run best2 --checkpoint-every 7
for one in best1 best2; do
    equal "$one leads to the best" "$(readlink $one/checkpoints/best.safetensors)" "$(best_of $one)"
    if [ -s $one/checkpoints/best.safetensors ]; then ok "$one is kept"; else bad "$one is gone: $(ls $one/checkpoints)"; fi
done
mv net.net away.net
"$lockstep" eval best1 --json >out 2>err
equal 'eval takes the best, and the model from the checkpoint' "$(field step)" "$(best_of best1 | sed 's/step-0*//; s/\..*//')"

# --- signals amid kernels: a handler on the stack of a computing thread damaged the heap, once in some hundred signals ---
storm="lenet5 digits -b 64 --no-eval -i 600 --threads 1 --checkpoint-every none --sync local:4"
calm=$(hash_of $storm --run calm)
"$lockstep" train $storm --run storm --json -q >out 2>err </dev/null &
pid=$!
pids+=("$pid")
eventually test -e storm/manifest.json
n_signals=0
while kill -USR1 "$pid" 2>/dev/null; do
    n_signals=$((n_signals + 1))
    sleep 0.002
done
wait "$pid"
code=$?
equal "$n_signals signals while it computes" "$code $(field weights_hash)" "0 $calm"

finish
