#!/usr/bin/env bash
# torch.sh LOCKSTEP: loss, logits, every gradient and a training step of every network against PyTorch in float64
# (tests/torch/compare.py, with its tolerances), in f32. Several networks side by side: most of the time is PyTorch's.
# From the environment: DUMP_GRADIENTS (the program; beside LOCKSTEP when unset), TORCH_PYTHON (python3), NETS (some of them).
source "$(dirname "$0")/common.sh"
dump=${DUMP_GRADIENTS:-$build/tests/dump_gradients}
python=${TORCH_PYTHON:-python3}
[ -x "$dump" ] || skip_all "torch: $dump is not there (cmake --build $build --target dump_gradients)"
"$python" -c 'import numpy, safetensors, torch' 2>/dev/null || skip_all "torch: $python has no torch, numpy and safetensors; TORCH_PYTHON names one that has"
# Not GoogLeNet: its last batch norms over 2 x 2 pixels make so much of rounding that a card takes another side of a kink than the CPU; loss
# and logits agree (3e-7), gradients do not (2e-3). NETS=googlenet shows it.
nets=${NETS:-vgg16 vgg11 densenet121 resnet18-224 alexnet mobilenetv2 resnet18 resnet-small layers svhn-cnn lenet5 mlp softmax} # the long ones first
n_jobs=$(($(nproc) / 2))
[ "$n_jobs" -ge 1 ] || n_jobs=1
export OMP_NUM_THREADS=2 PYTHONDONTWRITEBYTECODE=1

# truth NET: where PyTorch computes it; for small images a card is slower than a core
truth() {
    case $1 in
    vgg* | *-224 | alexnet | densenet* | mobilenet*) "$python" -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")' ;;
    *) echo cpu ;;
    esac
}

for net in $nets; do
    while [ "$(jobs -rp | wc -l)" -ge "$n_jobs" ]; do wait -n; done
    (
        "$python" "$gpu/../torch/compare.py" "$dump" "$lockstep" --device "$device" --truth-on "$(truth "$net")" --only "$net" >"torch.$net.out" 2>&1
        echo $? >"torch.$net.code"
        note "$net: done after $SECONDS s"
    ) &
done
wait
for net in $nets; do
    grep -E "^$net $device " "torch.$net.out" | cut -c 1-110
    if [ "$(cat "torch.$net.code")" = 0 ]; then ok "$net on $device against PyTorch in float64"; else bad "$net on $device against PyTorch in float64"; grep -E '^FAIL|Error|dump_gradients' "torch.$net.out" | head -n 6; fi
done
finish
