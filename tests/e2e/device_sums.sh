#!/usr/bin/env bash
# Devices that add their sums themselves (tests/plugins/far.c with LOCKSTEP_FAR_SUMS): the same weights on 1, 2 and 4
# processes, also where sums are added while shards are computed; a failure on one of them stops all; one that dies is named; --gpus.
# test: timeout=600
source "$(dirname "$0")/lib.sh"
plugins=$(dirname "$lockstep")/plugins
[ -e "$plugins/lockstep-far.so" ] || skip_all "the test plug-in was not built"
command -v mpirun >/dev/null && ls "$(dirname "$lockstep")"/lockstep-*mpi*.so >/dev/null 2>&1 || skip_all "no MPI here"
export LOCKSTEP_PLUGINS=$plugins LOCKSTEP_FAR_SUMS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# on NAME ARGS...: trains on far; prints the hash
on() {
    local name=$1
    shift
    "$lockstep" train "$@" --device far --threads 1 --run "$name" --json >"$name.out" 2>"$name.err" ||
        note "$name: exit $?: $(tail -n 1 "$name.err")"
    field weights_hash "$name.out"
}
run=(lenet5 digits -i 5 -b 64 --shards 4 --crop-pad 2 --no-eval)

one=$(on one "${run[@]}")
[ -n "$one" ] && ok "one process: $one" || bad "one process: $(tail -n 1 one.err)"
equal "2 processes" "$(on two "${run[@]}" -w 2)" "$one"
equal "their sums do not go through the host" "$(grep -c "through the host" two.err)" 0
equal "4 processes, --gpus" "$(LOCKSTEP_FAR_CARDS=4 on four "${run[@]}" --gpus 4)" "$one"
equal "one device cannot: nobody does" "$(LOCKSTEP_FAR_SUMS=one-cannot on host "${run[@]}" -w 2)" "$one"
has "which is said" host.err "sums go through the host: far: not every device can add"
equal "norm of the gradient, 2 processes" "$(on clip2 "${run[@]}" --clip-norm 0.1 -w 2)" "$(on clip1 "${run[@]}" --clip-norm 0.1)"
equal "batch norm and AdamW, 2 processes" "$(on bn2 resnet-small fake:3x32x32:10:32 -i 1 -b 8 --shards 2 --no-eval --optimizer adamw -w 2)" \
    "$(on bn1 resnet-small fake:3x32x32:10:32 -i 1 -b 8 --shards 2 --no-eval --optimizer adamw)"
on half lenet5 digits -i 2 -b 64 --shards 4 --crop-pad 2 --no-eval >/dev/null
"$lockstep" train --resume half -i 5 --device far -w 2 --threads 1 --no-eval --json >half.out 2>half.err || note "$(tail -n 1 half.err)"
equal "begun by one process, resumed by 2" "$(field weights_hash half.out)" "$one"
equal "test accuracy, counted by 2" "$(on eval2 softmax digits -i 3 -b 64 --shards 4 -w 2 >/dev/null; field test_accuracy eval2.out)" \
    "$(on eval1 softmax digits -i 3 -b 64 --shards 4 >/dev/null; field test_accuracy eval1.out)"

# Sums that are complete are added before the last shard ends: LeNet-5 has two such buckets. REDUCE in the plan's order, and put forward from its
# end (LOCKSTEP_FAR_RECORDING), launched and replayed. far adds what was there when they were said to be ready.
early() { sed -n 's/.*far: \([0-9]*\) early sums$/\1/p' "$1.err" | tr '\n' ' '; }
export LOCKSTEP_FAR_COUNT=1
for recording in none 0 1; do
    [ $recording = none ] && unset LOCKSTEP_FAR_RECORDING || export LOCKSTEP_FAR_RECORDING=$recording
    for w in 2 4; do
        equal "early sums of $w processes, recording $recording" "$(LOCKSTEP_FAR_CARDS=4 on early "${run[@]}" -w $w)" "$one"
        equal "early sums of $w processes, recording $recording: how many on each" "$(early early)" "$(for ((i = 0; i < w; i++)); do printf '10 '; done)"
        rm -rf early
    done
    equal "early sums alone, recording $recording" "$(on early "${run[@]}")" "$one"
    equal "early sums alone, recording $recording: none" "$(early early)" "0 "
    rm -rf early
    equal "3 processes and 2 shards, one is idle, recording $recording" "$(on idle lenet5 digits -i 5 -b 64 --shards 2 --no-eval -w 3 --no-balance)" \
        "$(on busy lenet5 digits -i 5 -b 64 --shards 2 --no-eval)"
    equal "3 processes and 2 shards, recording $recording: the idle one has none that are early" "$(early idle | tr ' ' '\n' | sort -n | xargs)" "0 10 10"
    rm -rf idle busy
done
unset LOCKSTEP_FAR_RECORDING
equal "all sums at once" "$(LOCKSTEP_FAR_BUCKET=0 on whole "${run[@]}" -w 2)" "$one"
equal "all sums at once: none is early" "$(early whole)" "0 0 "
equal "sums over kept rows are not early" "$(on join2 mlp digits -i 2 -b 16 --shards 2 --no-eval -w 2)" "$(on join1 mlp digits -i 2 -b 16 --shards 2 --no-eval)"
# a smaller last shard has a plan of its own
equal "small last shards" "$(LOCKSTEP_FAR_RECORDING=1 on rest2 lenet5 fake:1x28x28:10:90 --epochs 3 -b 32 --shards 4 --no-eval -w 2)" \
    "$(on rest1 lenet5 fake:1x28x28:10:90 --epochs 3 -b 32 --shards 4 --no-eval)"
unset LOCKSTEP_FAR_COUNT
positive() { python3 -c 'import sys; sys.exit(not float(sys.argv[2]) >= float(sys.argv[3]))' "$@" 2>/dev/null && ok "$1: $2 s" || bad "$1: $2 s, at least $3"; }
positive "they are hidden" "$(python3 -c 'import json; print(json.load(open("two.out"))["seconds"]["hidden"])')" 1e-6

# Where the time goes: the host only waits, the devices' clocks tell that 8 of 200 ms were sums; so on every rank. (200: updates, which end
# with the wait, may take long on a busy machine.)
LOCKSTEP_FAR_LAG_MS=200 LOCKSTEP_FAR_ADDING_MS=8 on timed "${run[@]}" -w 2 --no-record >/dev/null
LOCKSTEP_FAR_LAG_MS=200 LOCKSTEP_FAR_ADDING_MS=8 on timed-clip "${run[@]}" --clip-norm 0.1 -w 2 --no-record >/dev/null
for name in timed timed-clip; do
    if python3 - $name.out <<'PY' >timed.txt 2>&1
import json, sys
result = json.load(open(sys.argv[1]))
steps, seconds = result["steps"], result["seconds"]
parts = sum(v for k, v in seconds.items() if k != "hidden")
print(f"{steps} steps, communicate {seconds['communicate']:.3f} s, compute {seconds['compute']:.3f} s, all {parts:.3f} of {result['total_seconds']:.3f} s")
for who in [seconds, *result["ranks"]]:
    assert who["communicate"] >= 0.008 * steps and who["compute"] >= 0.010 * steps, who
assert abs(parts - result["total_seconds"]) < 0.05 * result["total_seconds"], parts
# sums as a ring sends them: of n ranks each sends 2 (n - 1) / n of the block, 8 bytes for each of LeNet-5's 61,706 parameters
assert all(61706 * 8 * steps < r["bytes_sent"] < 1.2 * 61706 * 8 * steps for r in result["ranks"]), result["ranks"]
PY
    then ok "$name: $(tail -n 1 timed.txt)"; else bad "$name: compute and communication: $(tail -n 1 timed.txt)"; fi
done
LOCKSTEP_FAR_LAG_MS=20 LOCKSTEP_FAR_SUMS=one-cannot on timed-host "${run[@]}" -w 2 >/dev/null
positive "through the host: computing is waiting for the device" "$(python3 -c 'import json; print(json.load(open("timed-host.out"))["seconds"]["compute"])')" 0.1

# A slower device gets fewer shards, and the weights stay.
eight=(lenet5 digits -i 20 -b 64 --shards 8 --no-eval)
alone=$(on eight1 "${eight[@]}")
equal "one of 2 devices is slower" "$(LOCKSTEP_FAR_SLOW_MS=20000 on slow "${eight[@]}" -w 2)" "$alone"
images=$(python3 -c 'import json; print(*(r["images"] for r in json.load(open("slow.out"))["ranks"]))')
read -r first second <<<"$images"
if [ "${second:-9999}" -lt $((${first:-0} * 3 / 4)) ]; then ok "it computes less: $images images"; else bad "it computes as much: $images images"; fi
LOCKSTEP_FAR_SLOW_MS=20000 on equal "${eight[@]}" -w 2 --no-balance >/dev/null
equal "--no-balance" "$(python3 -c 'import json; print(*(r["images"] for r in json.load(open("equal.out"))["ranks"]))')" "640 640"

# A launch that fails on one device: no device updates, all end alike, the layer is named.
for sums in 1 one-cannot; do
    LOCKSTEP_FAR_SUMS=$sums "$lockstep" train lenet5 digits -i 30 --lr 1e6 -b 64 --shards 4 --no-eval --device far -w 2 --threads 1 --run "nan-$sums" >nan.out 2>nan.err
    equal "exit code of a diverging run, sums by devices: $sums" $? 5
    has "it names the layer" nan.err "came out of"
done

# It fails on one of two: the other is asked to update, because it looked at the sums or their norm before, and does not.
few=(lenet5 fake:1x28x28:10:64 -b 64 --shards 4 --epochs 4 --no-eval)
for how in "" "--clip-norm 0.1" "--histograms 1" recorded; do
    [ "$how" != recorded ] || { export LOCKSTEP_FAR_RECORDING=1 && how=; }
    # shellcheck disable=SC2086 # words
    LOCKSTEP_FAR_FAILS=2 LOCKSTEP_FAR_COUNT=1 "$lockstep" train "${few[@]}" $how --device far -w 2 --threads 1 --run one-fails >one.out 2>one.err
    equal "exit code when one of 2 fails${how:+ with $how}" $? 5
    has "it says why" one.err "far: it was asked to fail"
    withheld=$(sed -n 's/.*far: \([0-9]*\) updates withheld$/\1/p' one.err | sort -n | tail -n 1)
    if [ "${withheld:-0}" -gt 0 ]; then ok "the other withheld $withheld updates"; else bad "the other updated: $(grep withheld one.err)"; fi
    rm -rf one-fails
done
unset LOCKSTEP_FAR_RECORDING

# A card that is lost in the middle: all end and say it, what was saved is there, and going on from it gives the same weights.
for w in 1 2; do
    LOCKSTEP_FAR_LOST=55 "$lockstep" train "${run[@]}" --checkpoint-every 1 --device far -w $w --threads 1 --run "lost$w" >lost.out 2>lost.err
    equal "exit code of $w with a card that is lost" $? 1
    has "it is said" lost.err "far: the card failed"
    [ -n "$(newest_of "lost$w")" ] && ok "what was saved is there" || bad "no checkpoint in lost$w"
    "$lockstep" train --resume "lost$w" --device far -w $w --threads 1 --no-eval --json >lost.out 2>lost.err || note "$(tail -n 1 lost.err)"
    equal "resumed afterwards" "$(field weights_hash lost.out)" "$one"
done

# A process that dies while the others wait for its sums.
LOCKSTEP_FAR_LAG_MS=20 "$lockstep" train lenet5 digits -i 100000 -b 64 --shards 4 --no-eval --device far -w 2 --threads 1 --timeout 5 \
    --log-every 1 --run killed >killed.out 2>killed.err &
launcher=$!
eventually has_lines killed/metrics.jsonl 3
victim=$(python3 - "$launcher" <<'PY'
import os, sys
# the launcher's descendants that are ranks 1
for p in filter(str.isdigit, os.listdir("/proc")):
    try:
        env = open(f"/proc/{p}/environ", "rb").read().split(b"\0")
        cmd = open(f"/proc/{p}/cmdline", "rb").read()
    except OSError:
        continue
    cwd = os.readlink(f"/proc/{p}/cwd")
    if b"train" in cmd and (b"OMPI_COMM_WORLD_RANK=1" in env or b"PMI_RANK=1" in env) and cwd == os.getcwd():
        print(p)
PY
)
[ -n "$victim" ] && kill -9 $victim
wait "$launcher"
equal "exit code when a process is killed" $? 6
has "it is named" killed.err "rank 1"

# --gpus: what cannot be
LOCKSTEP_FAR_CARDS=1 "$lockstep" train lenet5 digits -i 1 --shards 4 --device far --gpus 2 --run few >few.out 2>few.err
equal "exit code with fewer cards than --gpus" $? 1
has "it counts them" few.err "far: 1 cards, none for process 1"
"$lockstep" train lenet5 digits -i 1 --device far --gpus 2 --shards 1 --run idle >idle.out 2>idle.err
equal "exit code with fewer shards than --gpus" $? 2
has "it says which --shards" idle.err "add --shards 2"
"$lockstep" train lenet5 digits -i 1 --device ref --gpus 1 --run no >no.out 2>no.err
equal "exit code of --gpus without cards" $? 2
has "it names the device" no.err "--device is ref"
"$lockstep" train lenet5 digits -i 1 --device far --gpus 2 -w 3 --run no >no.out 2>no.err
equal "exit code of --gpus with another -w" $? 2
has "it names both" no.err "--workers is 3"
finish
