#!/usr/bin/env bash
# recipes.sh LOCKSTEP: the recipes explain themselves, say what is missing, and tell a reached target from a missed one (with a program
# that only claims to train); with MNIST there, and a machine that does it in 20 s, mnist-99 is run for real.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
recipes=$(realpath -- "$here/../../recipes") || exit 2
export TMPDIR=$work

# recipe NAME ARGS...: leaves out, err, code
recipe() {
    "$recipes/$1" "${@:2}" >out 2>err </dev/null
    code=$?
}

# A program that has any data set of 20,000 images and "trains" to $ACCURACY, or fails with $FAIL.
cat >claims <<'END'
#!/bin/sh
[ "$1" = train ] || { echo "train: 20000 images of 3x32x32, 10 classes"; exit 0; }
echo "$*" >>"$CALLS"
while [ "$1" != --run ]; do shift; done
[ "${FAIL:-0}" -eq 0 ] || exit "$FAIL"
mkdir -p "$2"
printf '{\n  "threads": 2,\n  "epochs": 3,\n  "train_seconds": 2.5,\n  "total_seconds": 3.5,\n  "test_accuracy": %s,\n  "weights_hash": "abc"\n}\n' "$ACCURACY" >"$2/result.json"
END
chmod +x claims
export CALLS=$work/calls

for path in "$recipes"/*-[0-9]*; do
    name=$(basename "$path")
    target=${name##*-}
    set=${name%-*}

    recipe "$name" --help
    equal "$name --help: exit code" $code 0
    has "$name --help: usage" out "Usage: recipes/$name [SEED] [OPTION...]"

    export LOCKSTEP=$lockstep
    XDG_CACHE_HOME=$work/none recipe "$name" 1 --data-dir "$work/none"
    if [ "$code" -eq 0 ] || [ "$code" -eq 10 ]; then skipped "$name without data: $set is installed in the system"
    else
        equal "$name without data: exit code" $code 3
        has "$name without data: how to get it" err "lockstep data fetch $set"
    fi

    export LOCKSTEP=$work/claims
    recipe "$name" seven
    equal "$name with a bad seed: exit code" $code 2
    ACCURACY=0.$target recipe "$name" 7 --threads 1
    equal "$name at the target: exit code" $code 0
    has "$name at the target: the line" out "$name: $target.00 % (target $target %: reached), 2.5 s of training, 3.5 s in all; 3 epochs, 2 threads, seed 7, weights abc"
    has "$name: the seed is passed on" calls "--seed 7"
    has "$name: options are passed on" calls "--threads 1"
    ACCURACY=0.$((target - 1))9 recipe "$name"
    equal "$name below the target: exit code" $code 10
    has "$name below the target: says so" out "MISSED"
    FAIL=5 recipe "$name"
    equal "$name when training fails: exit code" $code 5
    LOCKSTEP=$work/nowhere recipe "$name"
    equal "$name without a program: exit code" $code 1
done
grep -F svhn.net calls >calls.svhn
has "svhn-90 takes 60,000 images, 3 epochs of 20,000" calls.svhn "--epochs 3 "
equal "nothing is left in the folder for temporary files" "$(find . -mindepth 1 -maxdepth 1 -name '*-[0-9]*.*' | wc -l)" 0

export LOCKSTEP=$lockstep
if ! "$lockstep" data info mnist >/dev/null 2>&1; then skipped "mnist-99 for real: no MNIST (LOCKSTEP_DATA is not set or holds none)"; finish; fi
speed=$("$lockstep" bench lenet5 fake:1x28x28:10:1024 --seconds 0.5 --json 2>/dev/null | sed -n 's/^ *"images_per_second": \([0-9]*\).*/\1/p')
if [ "${speed:-0}" -lt 9000 ]; then skipped "mnist-99 for real: 180,000 images at ${speed:-0} a second take over 20 s here"; finish; fi
recipe mnist-99 1
if [ "$code" -eq 0 ]; then ok "$(cat out)"; else bad "mnist-99: exit code $code: $(cat out err)"; fi
finish
