#!/usr/bin/env bash
# speed.sh LOCKSTEP: images per second of the networks that bench/gpu compares with PyTorch, and from the start to the end of the first step.
# From the environment: BENCH_SECONDS (1), ROWS ("MODEL:BATCH:PRECISION ...").
source "$(dirname "$0")/common.sh"
rows=${ROWS:-lenet5:128:tf32 svhn-cnn:16:tf32 svhn-cnn:512:tf32 resnet18:32:bf16 resnet18:128:bf16 resnet18:512:bf16 resnet18:2048:bf16 alexnet:512:bf16 vgg16:128:bf16}
printf '%-14s %6s %6s %12s %14s\n' model batch '' images/s 'first step, ms'
for row in $rows; do
    IFS=: read -r model batch precision <<<"$row"
    [ "$device" = cuda ] || precision=f32
    if "$lockstep" bench "$model" -b "$batch" --device "$device" --precision "$precision" --seconds "${BENCH_SECONDS:-1}" --json >bench.out 2>bench.err </dev/null; then
        printf '%-14s %6s %6s %12.0f %14.0f\n' "$model" "$batch" "$precision" "$(field images_per_second bench.out)" "$(field first_step_ms bench.out)"
        passed=$((passed + 1))
    else
        bad "bench $model -b $batch --precision $precision: $(tail -n 1 bench.err)"
    fi
done
finish
