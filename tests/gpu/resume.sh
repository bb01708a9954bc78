#!/usr/bin/env bash
# resume.sh LOCKSTEP: stopped and resumed, evaluated elsewhere.
source "$(dirname "$0")/common.sh"
if has_precision bf16; then
    on whole16 "$device" resnet-small fake:3x32x32:10:128 -i 3 -b 32 --shards 4 --precision bf16 >/dev/null
    on half16 "$device" resnet-small fake:3x32x32:10:128 -i 1 -b 32 --shards 4 --precision bf16 >/dev/null
    "$lockstep" train resnet-small fake:3x32x32:10:128 --resume "half16.$device" -i 3 -b 32 --shards 4 --precision bf16 --device "$device" --json >half16.out 2>half16.err || note "$(tail -n 1 half16.err)"
    equal "resumed in bf16" "$(field weights_hash half16.out)" "$(field weights_hash "whole16.$device.out")"
fi
on full "$device" lenet5 digits -i 8 -b 64 --crop-pad 2 >/dev/null
on first "$device" lenet5 digits -i 4 -b 64 --crop-pad 2 >/dev/null
"$lockstep" train lenet5 digits --resume "first.$device" -i 8 -b 64 --crop-pad 2 --device "$device" --json >resumed.out 2>resumed.err || note "$(tail -n 1 resumed.err)"
equal "resumed" "$(field weights_hash resumed.out)" "$(field weights_hash "full.$device.out")"
"$lockstep" eval "full.$device" --device ref --json >eval.out 2>eval.err
close "its checkpoint evaluated by ref" "$(field test_loss "full.$device.out")" "$(field loss eval.out)" 1e-4
equal "a checkpoint has the weights it says" "$(field weights_hash eval.out)" "$(field weights_hash "full.$device.out")"
finish
