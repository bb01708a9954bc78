#!/usr/bin/env bash
# narrow.sh LOCKSTEP: fewer bits: twice the same, and near float32.
source "$(dirname "$0")/common.sh"
narrow() { # NAME PRECISION TOLERANCE ARGS...
    local name=$1 precision=$2 tolerance=$3 first
    shift 3
    has_precision "$precision" || return 0
    [ -e "$name.$device.out" ] || on "$name" "$device" "$@" >/dev/null
    first=$(on "$name-$precision" "$device" "$@" --precision "$precision")
    equal "$name in $precision: twice the same bits" "$(on "$name-$precision" "$device" "$@" --precision "$precision")" "${first:-none}"
    close "$name in $precision: test loss" "$(field test_loss "$name-$precision.$device.out")" "$(field test_loss "$name.$device.out")" "$tolerance"
}
narrow lenet5 tf32 1e-2 lenet5 digits -i 8 -b 64 --crop-pad 2
narrow resnet-small tf32 2e-2 resnet-small fake:3x32x32:10:128 -i 3 -b 32 --shards 4
narrow resnet-small bf16 5e-2 resnet-small fake:3x32x32:10:128 -i 3 -b 32 --shards 4
narrow resnet18 bf16 5e-2 resnet18 fake:3x32x32:10:64 -i 2 -b 32 --shards 4
narrow every tf32 2e-2 ./every.net fake:3x32x32:10:128 -i 4 -b 32
narrow every bf16 5e-2 ./every.net fake:3x32x32:10:128 -i 4 -b 32
has_precision bf16 || finish

# Updates bring the bf16 copies of parameters along: recorded as a whole, op by op, with evaluations between, resumed, in two processes.
whole=(resnet-small fake:3x32x32:10:640 -i 30 -b 32 --shards 1 --precision bf16 --lr 0.02)
first=$(on whole "$device" "${whole[@]}" --no-eval)
equal "bf16, every op launched: the bits of a recording" "$(on traced "$device" "${whole[@]}" --no-eval --trace --trace-steps 30)" "${first:-none}"
equal "bf16, evaluated in between" "$(on evaluated "$device" "${whole[@]}")" "${first:-none}"
on half "$device" "${whole[@]}" --no-eval -i 13 >/dev/null
"$lockstep" train --resume "half.$device" -i 30 --device "$device" --no-eval --json >resumed.out 2>resumed.err || note "$(tail -n 1 resumed.err)"
equal "bf16, resumed" "$(field weights_hash resumed.out)" "${first:-none}"
if command -v mpirun >/dev/null && ls "$build"/lockstep-*mpi*.so >/dev/null 2>&1; then
    equal "bf16, 2 processes, one of them idle" "$(LOCKSTEP_NCCL=0 on idle "$device" "${whole[@]}" --no-eval -w 2)" "${first:-none}"
fi
on learn "$device" resnet-small digits --epochs 1 -b 128 >/dev/null
on learn16 "$device" resnet-small digits --epochs 1 -b 128 --precision bf16 >/dev/null
close "accuracy after an epoch, bf16 against f32" "$(field test_accuracy "learn16.$device.out")" "$(field test_accuracy "learn.$device.out")" 0.02
finish
