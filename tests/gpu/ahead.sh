#!/usr/bin/env bash
# ahead.sh LOCKSTEP: steps ahead of the host, and what recorded updates read: with a line of metrics for every step the host waits for
# each, with one in 50 it does not; weights, metrics and messages are the same. Rates of layers (--lr-of) alone, by NCCL, through the host
# and resumed: recorded as a whole, in phases, and not at all. A device that is no card, and slow, gets less of it.
source "$(dirname "$0")/common.sh"
n=32 rates="1000 8" optimizers="sgd adamw" more=() # images of a batch
if [ "$device" != cuda ]; then n=8 rates=8 optimizers=sgd more=(--threads 1); fi # only one thread records

# --- the host waits for every step, or does not
# windows FEW MANY: each line of FEW is the mean of those of MANY since the line before
windows() {
    python3 - "$1/metrics.jsonl" "$2/metrics.jsonl" <<'PY'
import json, sys
few, many = ([m for m in map(json.loads, open(p)) if m["split"] == "train"] for p in sys.argv[1:])
last = 0
for line in few:
    part = [m for m in many if last < m["step"] <= line["step"]]
    last = line["step"]
    for what in ("loss", "accuracy"):
        mean = sum(m[what] for m in part) / len(part)
        if abs(mean - line[what]) > 1e-4 * max(1e-2, abs(mean)):
            sys.exit(f"step {last}: {what} {line[what]}, the mean of {len(part)} steps is {mean}")
print(f"{len(few)} lines of {len(many)} steps")
PY
}
alike() { # NAME ARGS...
    local name=$1 every fifty
    shift
    every=$(on "$name-1" "$device" "$@" "${more[@]}" --log-every 1) fifty=$(on "$name-50" "$device" "$@" "${more[@]}" --log-every 50)
    equal "$name: --log-every 1 and 50" "$fifty" "${every:-none}"
    if windows "$name-50.$device" "$name-1.$device" >windows.txt 2>&1; then ok "$name: the same metrics, $(tail -n 1 windows.txt)"
    else bad "$name: metrics: $(tail -n 1 windows.txt)"; fi
    equal "$name: the same loss at the end" "$(field train_loss "$name-50.$device.out")" "$(field train_loss "$name-1.$device.out")"
    equal "$name: images" "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["ranks"][0]["images"])' "$name-50.$device.out")" \
        "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["ranks"][0]["images"])' "$name-1.$device.out")"
}
alike small softmax digits -i 120 -b "$n" --shards 1 --no-eval
if [ "$device" = cuda ]; then
    alike lenet5 lenet5 digits -i 100 -b "$n" --shards 1 --no-eval --crop-pad 2 --optimizer adamw
    alike resnet resnet-small fake:3x32x32:10:640 --epochs 4 -b 32 --shards 1 --no-eval --precision bf16
    alike dropout ./every.net fake:3x32x32:10:640 --epochs 3 -b 32 --shards 1 --no-eval
fi

# --- a step that fails is named, whoever waits
for lr in $rates; do
    bad_run=(lenet5 digits -i 60 -b 32 --shards 1 --no-eval --lr "$lr")
    [ "$lr" = 8 ] || bad_run+=(--warmup-epochs 1)
    for how in "--log-every 1" "--log-every 50" "--log-every 50 --no-record"; do
        # shellcheck disable=SC2086 # words
        "$lockstep" train "${bad_run[@]}" "${more[@]}" $how --device "$device" --run fails >fails.out 2>fails.err
        equal "--lr $lr $how: exit code" $? 5
        said=$(grep -m 1 '^lockstep: step' fails.err)
        [ "$how" != "--log-every 1" ] || first=$said
        [ -n "$said" ] && equal "--lr $lr $how: the message" "$said" "$first" || bad "--lr $lr $how: no step is named: $(tail -n 1 fails.err)"
        rm -rf fails
    done
done

# --- rates of layers
for optimizer in $optimizers; do
    lr=0.05
    [ "$optimizer" = sgd ] || lr=0.002
    run=(lenet5 digits -b "$n" --shards 2 --no-eval --optimizer "$optimizer" --lr "$lr" --lr-of 'conv*=x0.1,*.bias=x2' --timeout 30 "${more[@]}")
    two=$(on "of-$optimizer-2" "$device" "${run[@]}" -i 8)
    [ -n "$two" ] && ok "--lr-of, $optimizer: $two" || bad "--lr-of, $optimizer: $(tail -n 1 "of-$optimizer-2.$device.err")"
    one=$(on "of-$optimizer-1" "$device" "${run[@]}" --shards 1 -i 8)
    [ "$one" != "$(on "of-$optimizer-0" "$device" lenet5 digits -b "$n" --shards 1 --no-eval --optimizer "$optimizer" --lr "$lr" -i 8 "${more[@]}")" ] &&
        ok "--lr-of, $optimizer: they matter" || bad "--lr-of, $optimizer: the same as without: $one"
    on "of-$optimizer-half" "$device" "${run[@]}" --shards 1 -i 3 >/dev/null
    "$lockstep" train --resume "of-$optimizer-half.$device" -i 8 --device "$device" "${more[@]}" --no-eval --json >resumed.out 2>resumed.err || note "$(tail -n 1 resumed.err)"
    equal "--lr-of, $optimizer: resumed" "$(field weights_hash resumed.out)" "${one:-none}"
    if command -v mpirun >/dev/null && ls "$build"/lockstep-*mpi*.so >/dev/null 2>&1; then
        equal "--lr-of, $optimizer: 2 workers" "$(on "of-$optimizer-w" "$device" "${run[@]}" -i 8 -w 2)" "${two:-none}"
        [ "$device" = cuda ] || continue # the host's way is a card's to choose
        equal "--lr-of, $optimizer: 2 workers through the host" "$(LOCKSTEP_NCCL=0 on "of-$optimizer-h" "$device" "${run[@]}" -i 8 -w 2)" "${two:-none}"
        equal "--lr-of, $optimizer: one shard, 2 workers through the host" \
            "$(LOCKSTEP_NCCL=0 on "of-$optimizer-h1" "$device" "${run[@]}" --shards 1 -i 8 -w 2)" "${one:-none}"
    else
        skipped "--lr-of, $optimizer: several workers: no MPI here"
    fi
done
finish
