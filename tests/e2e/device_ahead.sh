#!/usr/bin/env bash
# A device that is steps ahead of the host (tests/plugins/far.c with LOCKSTEP_FAR_RECORDING): the same weights, metrics and errors as
# when the host waits for every step; checkpoints and signals in between.
# test: sanitize
source "$(dirname "$0")/lib.sh"
plugins=$(dirname "$lockstep")/plugins
[ -e "$plugins/lockstep-far.so" ] || skip_all "the test plug-in was not built"
export LOCKSTEP_PLUGINS=$plugins LOCKSTEP_FAR_COUNT=1

# on NAME RECORDING ARGS...: trains on far; leaves code, NAME.out, NAME.err; prints the hash
on() {
    local name=$1 recording=$2
    shift 2
    LOCKSTEP_FAR_RECORDING=$recording "$lockstep" train "$@" --device far --threads 1 --run "$name" --json >"$name.out" 2>"$name.err" </dev/null
    code=$?
    field weights_hash "$name.out"
}
waits() { sed -n 's/^far: the host waited \([0-9]*\) times$/\1/p' "$1.err"; }
run=(softmax digits -i 60 -b 32 --shards 1 --no-eval)

# --- the same training ---
plain=$(on plain 0 "${run[@]}")
[ -n "$plain" ] && ok "no recording: $plain" || bad "no recording: $(tail -n 1 plain.err)"
equal "ahead" "$(on ahead 1 "${run[@]}")" "$plain"
equal "a line for every step" "$(on lines 1 "${run[@]}" --log-every 1)" "$plain"
equal "checkpoints in between" "$(on saved 1 "${run[@]}" --checkpoint-every 7)" "$plain"
if [ $(($(waits ahead) + 50)) -le "$(waits lines)" ]; then ok "the host waited $(waits ahead) times, $(waits lines) with a line for every step"
else bad "the host waited $(waits ahead) times, $(waits lines) with a line for every step"; fi
equal "every image is counted" "$(python3 -c 'import json; print(*(r["images"] for r in json.load(open("ahead.out"))["ranks"]))')" $((60 * 32))
same_file "the same metrics" <(metrics_of plain) <(metrics_of ahead)
same_file "the same metrics with checkpoints in between" <(metrics_of plain) <(metrics_of saved)
equal "batch norm, several epochs, a small last batch" \
    "$(on bn1 1 resnet-small fake:3x16x16:10:60 --epochs 3 -b 8 --shards 1 --no-eval --log-every 0)" \
    "$(on bn0 0 resnet-small fake:3x16x16:10:60 --epochs 3 -b 8 --shards 1 --no-eval --log-every 0)"
same_file "its metrics" <(metrics_of bn0) <(metrics_of bn1)
LOCKSTEP_TERMINAL=1 TERM=xterm on bar 1 softmax fake:1x8x8:4:640 --epochs 3 -b 8 --shards 1 --no-eval --log-every 20 >/dev/null
for epoch in 1 2 3; do
    grep -aqE "Epoch $epoch/3: +[0-9]+%" bar.err && ok "the bar of epoch $epoch" || bad "no bar of epoch $epoch: $(tr '\r' '\n' <bar.err | grep -ao 'Epoch ./3: *[0-9]*%' | sort -u | tr '\n' ' ')"
done

# --- a step that fails while the host is elsewhere: the message names that step (LeNet-5 on ref is long with sanitizers) ---
if ! is_sanitized; then
bad_run=(lenet5 digits -i 60 -b 32 --shards 1 --no-eval --lr 1000 --warmup-epochs 1)
on nan0 0 "${bad_run[@]}" >/dev/null
equal "diverging: exit code" "$code" 5
at=$(sed -n 's/^lockstep: step \([0-9]*\): .*/\1/p' nan0.err)
[ "${at:-0}" -gt 4 ] && ok "diverging: it names step $at" || bad "diverging: $(tail -n 1 nan0.err)"
on nan1 1 "${bad_run[@]}" --log-every 50 >/dev/null
equal "diverging, ahead: exit code" "$code" 5
equal "diverging, ahead: the same message" "$(grep '^lockstep: ' nan1.err)" "$(grep '^lockstep: ' nan0.err)"
on nan2 1 "${bad_run[@]}" --log-every 50 --checkpoint-every 3 >/dev/null
equal "diverging, ahead, with checkpoints: exit code" "$code" 5
newest=$(basename "$(newest_of nan2)" .safetensors)
if [ $((10#${newest#step-})) -lt "$at" ] && [ $((10#${newest#step-})) -ge $((at - 3)) ]; then ok "the newest checkpoint is of step ${newest#step-}, before it"
else bad "failed at step $at, the newest checkpoint is $newest"; fi

# --- a step that fails while its layers are measured, with others ahead of the host ---
measured=(lenet5 digits -i 20 -b 32 --shards 1 --no-eval --lr 8)
on layers0 0 "${measured[@]}" >/dev/null
on layers1 1 "${measured[@]}" >/dev/null
on layers2 1 "${measured[@]}" --no-record >/dev/null
has "it names a step that is measured" layers0.err "step 4: "
equal "measured, ahead" "$(grep '^lockstep: ' layers1.err)" "$(grep '^lockstep: ' layers0.err)"
equal "not measured, ahead" "$(grep '^lockstep: ' layers2.err)" "$(grep '^lockstep: ' layers0.err)"
fi

# --- a signal in between ---
LOCKSTEP_FAR_RECORDING=1 "$lockstep" train softmax digits -i 100000 -b 32 --shards 1 --no-eval --log-every 20 --device far --threads 1 --run stop >stop.out 2>stop.err </dev/null &
pid=$!
pids+=("$pid")
eventually has_lines stop/metrics.jsonl 2
kill -TERM "$pid"
wait "$pid"
equal "SIGTERM: exit code" $? 75
last=$(basename "$(newest_of stop)" .safetensors)
steps=$((10#${last#step-}))
LOCKSTEP_FAR_RECORDING=1 "$lockstep" train --resume stop -i $((steps + 13)) --device far --threads 1 --no-eval --json >stop.out 2>stop.err </dev/null
equal "resumed: exit code" $? 0
equal "stopped after step $steps and resumed" "$(field weights_hash stop.out)" \
    "$(on unbroken 0 softmax digits -i $((steps + 13)) -b 32 --shards 1 --no-eval --log-every 20)"
same_file "its metrics" <(metrics_of unbroken) <(metrics_of stop)
equal "its loss" "$(field train_loss stop.out)" "$(field train_loss unbroken.out)"

# --- bench measures it ---
LOCKSTEP_FAR_RECORDING=1 "$lockstep" bench softmax -b 32 --shards 1 --device far --threads 1 --steps 25 --seconds 0 --json >bench.out 2>bench.err
equal "bench: exit code" $? 0
[ "$(field steps bench.out)" -ge 25 ] && ok "bench: $(field steps bench.out) steps" || bad "bench: $(cat bench.out bench.err)"
finish
