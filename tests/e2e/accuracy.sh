#!/usr/bin/env bash
# accuracy.sh LOCKSTEP [FAULTS [long]]: on real data the networks learn what they are known to learn. Needs LOCKSTEP_DATA (or the
# data in one of the usual places); without it, skipped. `long` adds what takes minutes.
# test: timeout=3600
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
form=${3:-short}
command -v python3 >/dev/null || skip_all "python3 is not installed"
n_sets=0

# there SET: the data are here; otherwise says what is missing
there() {
    if "$lockstep" data info "$1" >/dev/null 2>err; then n_sets=$((n_sets + 1)); return 0; fi
    skipped "$1: $(cut -c 1-200 err)"
    return 1
}

# reaches LEAST MODEL SET OPTIONS...: the test accuracy in percent after training
n=0
reaches() {
    local least=$1 percent
    shift
    n=$((n + 1))
    train "$@" --run "run-$n"
    if [ "$code" -ne 0 ]; then bad "train $*: exit $code: $(cat err)"; return; fi
    percent=$(python3 -c 'import json; r = json.load(open("out")); print("%.2f" % (100 * r["test_accuracy"]))')
    if python3 -c "exit(not $percent >= $least)"; then
        ok "train $*: $percent % (at least $least), $(field train_seconds) s"
    else
        bad "train $*: $percent %, expected $least or more"
    fi
}

if there mnist; then
    reaches 92.3 softmax mnist --epochs 10
    reaches 99.0 lenet5 mnist --epochs 6 --lr 0.1 --schedule onecycle --weight-decay 5e-4 --crop-pad 1
    rss=$(field peak_rss_bytes)
    if [ "${rss:-999999999}" -lt 150000000 ]; then ok "LeNet-5 on MNIST takes $rss bytes"; else bad "LeNet-5 on MNIST takes $rss bytes, expected less than 150000000"; fi
fi
if there fashion-mnist; then
    reaches 83.5 softmax fashion-mnist --epochs 5
    if [ "$form" = long ]; then reaches 91.0 resnet-small fashion-mnist --epochs 4 --lr 0.1 --schedule onecycle --weight-decay 5e-4 --flip; fi
fi
if [ "$form" = long ]; then
    for seed in 1 2 3; do reaches 98.0 lenet5 digits --epochs 5 --seed $seed; done
    if there svhn; then reaches 82.0 svhn-cnn svhn --epochs 3; fi
    if there cifar10; then reaches 80.0 resnet-small cifar10 --epochs 8 --lr 0.1 --schedule onecycle --weight-decay 5e-4 --nesterov --crop-pad 4 --flip; fi
fi
if [ $n_sets -eq 0 ] && [ $failed -eq 0 ] && [ $passed -eq 0 ]; then skip_all "no real data (LOCKSTEP_DATA is not set or holds none)"; fi
finish
