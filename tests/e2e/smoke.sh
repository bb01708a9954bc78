#!/usr/bin/env bash
# smoke.sh LOCKSTEP: every command once on something tiny; in the build with sanitizers it also finds leaks and undefined behaviour.
# test: sanitize
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"

# works PART COMMAND...: exit code 0, PART on stdout, and no word from a sanitizer
works() {
    local part=$1
    shift
    timeout 900 "$lockstep" "$@" >out 2>err </dev/null
    code=$?
    if [ $code -ne 0 ]; then bad "lockstep $*: exit $code: $(head -c 1500 err)"
    elif grep -q 'Sanitizer\|runtime error' err; then bad "lockstep $*: $(head -c 1500 err)"
    elif ! grep -qF -- "$part" out; then bad "lockstep $*: no \"$part\" in: $(head -c 300 out)"
    else ok "lockstep $*"
    fi
}

# fails CODE COMMAND...: that exit code, one line, nothing of a sanitizer (which has codes of its own)
fails() {
    local expected=$1
    shift
    timeout 900 "$lockstep" "$@" >out 2>err </dev/null
    code=$?
    one_line_error "lockstep $*" "$expected" ''
}

works 'lockstep ' --version
works 'Commands' help
works 'Usage' train --help
works 'lenet5' models
works 'lenet5' models lenet5 --json
works 'digits' data list
works '60000 images' data info digits
works 'fake' data check fake:1x8x8:3:10
works '' doctor
for device in cpu ref; do
    "$lockstep" --version | grep -q "backend $device" || continue
    tiny=(fake:1x28x28:10:40 -b 16 --epochs 2 -p 1 -t 2 --device $device)
    works 'weights' train softmax "${tiny[@]}" --run $device-a
    works 'weights_hash' train lenet5 "${tiny[@]}" --run $device-b --json --nesterov --weight-decay 1e-4 --clip-norm 1 --label-smoothing 0.1
    works 'weights_hash' train resnet-small fake:3x16x16:4:10 -b 5 --shards 2 --epochs 2 --device $device --run $device-c --json --optimizer adamw \
        --crop-pad 2 --flip --cutout 4 --checkpoint-every 1
    works 'accuracy' eval $device-c --device $device
    works 'accuracy' eval $device-a/checkpoints/latest.safetensors --device $device --json
    works 'images' bench lenet5 -b 16 --device $device
    works 'conv1' plan lenet5 --device $device
    works 'weights' train lenet5 "${tiny[@]}" --run $device-b2 -i 4
    works 'weights' train lenet5 "${tiny[@]}" --run $device-b2 --resume auto
done
works 'checkpoints' inspect ref-a
works 'verified' inspect ref-a/checkpoints/latest.safetensors
works '{' inspect ref-a --json
works 'weights' train lenet5 digits -i 3 -b 64 --run digits-run --no-eval

# Layers that the zoo's small networks do not have.
cat >rest.net <<'END'
model rest
input any
conv conv1 8 3 pad=1 groups=1 dilation=1
lrn 5
relu
keep x
conv conv2 8 3 pad=2 dilation=2 groups=2
dropout 0.3
add x
concat x
avgpool 3 stride=2 pad=1
bias b
adaptiveavgpool 2x2
flatten
linear fc1 20 bias=no
relu
dropout 0.5
linear fc2 classes
END
for device in cpu ref; do
    "$lockstep" --version | grep -q "backend $device" || continue
    works 'weights' train ./rest.net fake:2x15x15:5:30 -b 10 --shards 3 --epochs 2 --device $device --run rest-$device
    works 'accuracy' eval rest-$device --device $device
    works 'conv2' plan ./rest.net --device $device
done

fails 2 train lenet5 digits --no-such-option
fails 3 train lenet5 folder:nowhere
fails 3 plan ./nowhere.net
fails 4 eval nowhere
fails 4 train softmax fake:1x28x28:10:40 --run ref-a
fails 4 train softmax fake:1x28x28:10:40 --run ref-a --resume auto --seed 3
fails 5 train lenet5 fake:1x28x28:10:40 --lr 1e6 --epochs 20 --schedule constant --run wild -q

finish
