#!/usr/bin/env bash
# What --device cuda says where it cannot compute: no driver, one that is too old, one that sees no card (tests/gpu/driver.c plays it);
# and that a run which was not begun leaves nothing behind.
# test: timeout=120
source "$(dirname "$0")/lib.sh"
build=$(dirname "$lockstep")
[ -e "$build/lockstep-cuda.so" ] || skip_all "lockstep-cuda.so was not built here"
! command -v nvidia-smi >/dev/null || skip_all "this machine has a driver; make test-gpu tests it"
export LOCKSTEP_PLUGINS=$build

# refuses WHAT TEXT: the training ends with 1 and says it in one line
refuses() {
    "$lockstep" train softmax digits -i 1 --device cuda --run r >r.out 2>r.err
    equal "$1: exit code" $? 1
    has "$1: it says so" r.err "$2"
    equal "$1: in one line" "$(wc -l <r.err)" 1
    [ ! -e r/manifest.json ] && ok "$1: no run was begun" || bad "$1: a run was begun"
    rm -rf r
}
refuses "no driver" "this machine has no NVIDIA driver; install it, or use --device cpu"
"$lockstep" doctor >doctor.out 2>&1
has "doctor says it too" doctor.out "but no driver"

command -v cc >/dev/null || { skipped "an old driver: no C compiler to make one"; finish; }
mkdir driver && cc -shared -fPIC -o driver/libcuda.so.1 "$here/../gpu/driver.c" || bad "the driver of the test does not compile"
export LD_LIBRARY_PATH=$PWD/driver FAKE_CUDA_VERSION=11040 FAKE_CUDA_CARDS=1
refuses "an old driver" "the NVIDIA driver is for CUDA 11.4, this build needs"
"$lockstep" doctor >doctor.out 2>&1
has "doctor says it too" doctor.out "the NVIDIA driver is for CUDA 11.4"
export FAKE_CUDA_VERSION=99000 FAKE_CUDA_CARDS=0
refuses "no card" "no NVIDIA card is to be seen here"
finish
