#!/usr/bin/env bash
# A device whose memory the host cannot read (tests/plugins/far.c) trains the same weights as ref, to the last bit.
# test: timeout=1200
source "$(dirname "$0")/lib.sh"
plugins=$(dirname "$lockstep")/plugins
[ -e "$plugins/lockstep-far.so" ] || skip_all "the test plug-in was not built"
export LOCKSTEP_PLUGINS=$plugins

# hash NAME DEVICE ARGS...: trains, leaves stderr in NAME.DEVICE.err
hash() {
    local name=$1 device=$2
    shift 2
    "$lockstep" train "$@" --device "$device" --run "$name.$device" --json >"$name.$device.out" 2>"$name.$device.err" ||
        note "$name on $device: exit $?: $(tail -n 1 "$name.$device.err")"
    field weights_hash "$name.$device.out"
}

# same NAME ARGS...
same() {
    local name=$1
    shift
    equal "$name: far has ref's bits" "$(hash "$name" far "$@")" "$(hash "$name" ref "$@")"
}

same softmax softmax digits -i 20 --threads 2
same mlp mlp digits -i 3
same lenet5 lenet5 digits -i 6 -b 64 --crop-pad 2 --threads 3
same adamw lenet5 digits -i 4 -b 40 --optimizer adamw --clip-norm 0.5
same svhn svhn-cnn fake:3x32x32:10:64 -i 2 -b 16 --flip --cutout 8
same resnet resnet-small fake:3x32x32:10:32 -i 1 -b 8
equal "test accuracy" "$(field test_accuracy lenet5.far.out)" "$(field test_accuracy lenet5.ref.out)"

# Stopped and resumed, and evaluated by another device.
hash first far lenet5 digits -i 3 -b 64 --crop-pad 2 >/dev/null
"$lockstep" train lenet5 digits --resume first.far -i 6 -b 64 --crop-pad 2 --device far --json >resumed.out 2>resumed.err || note "$(cat resumed.err)"
equal "resumed" "$(field weights_hash resumed.out)" "$(field weights_hash lenet5.ref.out)"
"$lockstep" eval lenet5.far --device ref --json >eval.out 2>eval.err
equal "its checkpoint on ref" "$(field weights_hash eval.out)" "$(field weights_hash lenet5.ref.out)"

# What it says of every image comes back from there.
for device in far ref; do
    "$lockstep" eval lenet5.far --device $device --top 2 -o $device.csv --threads 2 -q >/dev/null 2>eval.err || note "$(cat eval.err)"
done
same_file "eval -o on far says what it says on ref" far.csv ref.csv
equal "of every image" "$(wc -l <far.csv)" 10001

# A launch that fails is heard of at the end of the step; nothing was updated and the layer is named.
"$lockstep" train lenet5 digits -i 30 --lr 1e6 --device far --run nan >nan.out 2>nan.err
equal "exit code of a diverging run" $? 5
has "it names the layer" nan.err "came out of"

# Who looks at the gradients before they are applied, or wants their norm, hears of it first: as on ref, and nothing is trained from garbage.
for how in "--lr 1000 --histograms 1" "--lr 1e6 --clip-norm 100"; do
    for device in far ref; do
        # shellcheck disable=SC2086 # words
        "$lockstep" train lenet5 fake:1x28x28:10:64 -b 64 --epochs 6 --no-eval $how --device $device --run "look.$device" >look.out 2>"look.$device.err"
        equal "$how on $device: exit code" $? 5
        rm -rf "look.$device"
    done
    equal "$how: what it says" "$(grep '^lockstep: ' look.far.err)" "$(grep '^lockstep: ' look.ref.err)"
done

# What a device cannot do in its own memory it says.
LOCKSTEP_FAR_EXACT=1 "$lockstep" train lenet5 digits -i 1 --device far --compress 8 --run no >no.out 2>no.err
equal "exit code of a refused option" $? 2
has "it names option and device" no.err "--compress does not work with --device far"
"$lockstep" train lenet5 digits -i 1 --device nowhere --run no >no.out 2>no.err
equal "exit code of an unknown device" $? 2

# Several ranks: each has its own device, so each is a machine of its own.
if command -v mpirun >/dev/null && ls "$(dirname "$lockstep")"/lockstep-*mpi*.so >/dev/null 2>&1; then
    equal "two workers" "$(hash two far lenet5 digits -i 6 -b 64 --crop-pad 2 -w 2)" "$(field weights_hash lenet5.ref.out)"
else
    skipped "two workers: no MPI here"
fi
finish
