#!/usr/bin/env bash
# gpu_parts.sh LOCKSTEP: the scripts of tests/gpu do what they say, without a card: unknown parts, times, a budget, a part that fails; accuracy is
# judged by what seeds do (with a program that only claims to train), and trainings are compared (with ref in the card's place).
# test: timeout=1200
source "$(dirname "$0")/lib.sh"
run=$(realpath -- "$here/../gpu/run") || exit 2

# A program that has any data set and "trains" to what $BELOW takes away from 90 % in fewer bits; with another 0.1 % per seed.
cat >claims <<'END'
#!/bin/sh
[ "$1" = train ] || { echo "train: 20000 images of 3x32x32, 10 classes"; exit 0; }
precision=f32 seed=1
while [ $# -gt 0 ]; do
    case $1 in --run) folder=$2 ;; --precision) precision=$2 ;; --seed) seed=$2 ;; esac
    shift
done
[ "$precision" = "${BREAKS:-none}" ] && { echo "lockstep: it broke" >&2; exit 1; }
mkdir -p "$folder"
accuracy=$(awk -v seed=$seed -v below=$([ $precision = f32 ] && echo 0 || echo "$BELOW") 'BEGIN { print 0.90 + seed / 1000 - below / 100 }')
printf '{\n  "threads": 2,\n  "epochs": 3,\n  "train_seconds": 2.5,\n  "total_seconds": 3.5,\n  "test_accuracy": %s,\n  "weights_hash": "abc"\n}\n' "$accuracy" >"$folder/result.json"
END
chmod +x claims
mkdir data && touch data/train_32x32.mat

# judged WHAT CODE TEXT: accuracy of SVHN in f32 and bf16, by the program that claims
judged() {
    DEVICE=cpu PRECISIONS="f32 bf16" PARTS=accuracy LOCKSTEP_DATA=$work/data bash "$run" claims >out 2>err
    equal "$1: exit code" $? "$2"
    has "$1: it says so" out "$3"
}
export BELOW=0.1
judged "bf16 within what seeds do" 0 "ok: svhn-90 in bf16: 90.10 %, f32 90.20 %, allowed are 0.24 less"
has "recipes without data are skipped" out "skipped: accuracy of cifar10-90: no cifar-10-batches-bin/data_batch_1.bin"
BELOW=1 judged "bf16 that loses a percent" 1 "FAILED: svhn-90 in bf16: 89.20 %"
BREAKS=bf16 judged "a training that fails" 1 "FAILED: svhn-90 in bf16: bf16, seed 1 did not end well: lockstep: it broke"
has "the part is told at the end, with its time" out "accuracy   FAILED, "

PARTS="ops nonsense" bash "$run" "$lockstep" >out 2>err
equal "an unknown part: exit code" $? 2
has "it is named" err "there is no part 'nonsense'"
DEVICE=ref PARTS="wrong speed" BUDGET=0 bash "$run" "$lockstep" >out 2>err
equal "no time: exit code" $? 0
has "it is said" out "speed      not run: 0 s are over"
DEVICE=ref PARTS="wrong ops nets speed" OPS="relu add" NETS=softmax ROWS=softmax:16:f32 BENCH_SECONDS=0.01 TEST_OPS=$(dirname "$lockstep")/tests/test_ops bash "$run" "$lockstep" >out 2>err
equal "ref in the card's place: exit code" $? 0
has "what only cards have is skipped" out "wrong      skipped"
has "trainings are compared" out "ok: softmax: twice the same bits"
[ ! -x "$(dirname "$lockstep")/tests/test_ops" ] || has "ops are counted" out "ok: ops in f32: "
plugins=$(dirname "$lockstep")/plugins
if [ -e "$plugins/lockstep-far.so" ]; then
    LOCKSTEP_PLUGINS=$plugins LOCKSTEP_FAR_RECORDING=1 LOCKSTEP_FAR_SUMS=1 DEVICE=far PARTS=ahead bash "$run" "$lockstep" >out 2>err
    equal "steps ahead, on a device of the tests: exit code" $? 0
    has "it compares metrics" out "ok: small: the same metrics, 2 lines of 120 steps"
    has "it names the step" out "ok: --lr 8 --log-every 50: the message"
    has "it tries rates of layers" out "ok: --lr-of, sgd: resumed"
    grep -h '^FAILED' out | head -n 5
    LOCKSTEP_PLUGINS=$plugins LOCKSTEP_FAR_RECORDING=1 DEVICE=far PARTS=sync SYNC=server bash "$run" "$lockstep" >out 2>err
    equal "a parameter server, on a device of the tests: exit code" $? 0
    grep -q '^skipped: a parameter server' out || has "a worker is killed" out "a worker lost in between, resumed"
    grep -h '^FAILED' out | head -n 5
else
    skipped "steps ahead: the test plug-in was not built"
fi
finish
