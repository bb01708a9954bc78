#!/usr/bin/env bash
# accuracy.sh LOCKSTEP: the recipes in fewer bits are as good as in f32, within what seeds do. Three seeds side by side. Recipes whose data
# LOCKSTEP_DATA has not are skipped. From the environment: RECIPES (some of mnist-99, svhn-90, cifar10-90), SEEDS ("1 2 3"), RECIPE_OPTIONS
# (more options for `lockstep train`, as --epochs 1).
source "$(dirname "$0")/common.sh"
has_precision f32 || skip_all "accuracy: without f32 there is nothing to compare with"
read -r -a seeds <<<"${SEEDS:-1 2 3}"
read -r -a more <<<"${RECIPE_OPTIONS:-}"

# has_data FILE...: one of them
has_data() {
    local file
    for file; do [ ! -e "${LOCKSTEP_DATA:-/nowhere}/$file" ] || return 0; done
    return 1
}

# judge NAME PRECISION: prints the verdict
judge() {
    python3 - "$1" "$2" "${seeds[@]}" <<'PY'
import re, statistics, sys
name, precision, *seeds = sys.argv[1:]
def read(p):
    found = []
    for seed in seeds:
        lines = open(f"{name}.{p}.{seed}").read().splitlines()
        match = re.search(r": ([0-9.]+) % \(target", lines[-1] if lines else "")
        if not match:
            sys.exit(f"{p}, seed {seed} did not end well: {lines[-1] if lines else 'it said nothing'}")
        found.append(float(match.group(1)))
    return found
wide, narrow = read("f32"), read(precision)
spread = max(statistics.stdev(x) if len(x) > 1 else 0 for x in (wide, narrow))
# the difference of two means of some seeds each, at three of its standard deviations; no less than what one seed differs from the next
allowed = max(0.15, 3 * (2 / len(seeds)) ** 0.5 * spread)
print(f"{statistics.mean(narrow):.2f} %, f32 {statistics.mean(wide):.2f} %, allowed are {allowed:.2f} less")
sys.exit(statistics.mean(wide) - statistics.mean(narrow) > allowed)
PY
}

# recipe NAME FILE...: nothing without one of the FILEs of the data
recipe() {
    local name=$1 precision seed started
    shift
    [[ " ${RECIPES:-$name} " == *" $name "* ]] || return 0
    has_data "$@" || { skipped "accuracy of $name: no $1 in LOCKSTEP_DATA"; return; }
    for precision in $precisions; do
        started=$SECONDS
        for seed in "${seeds[@]}"; do
            LOCKSTEP=$lockstep "$gpu/../../recipes/$name" "$seed" --device "$device" --precision "$precision" ${more[@]+"${more[@]}"} </dev/null >"$name.$precision.$seed" 2>&1 &
        done
        wait
        for seed in "${seeds[@]}"; do note "$precision: $(tail -n 1 "$name.$precision.$seed")"; done
        note "$name in $precision: $((SECONDS - started)) s"
    done
    for precision in $precisions; do
        if judge "$name" "$precision" >verdict 2>&1; then ok "$name in $precision: $(tail -n 1 verdict)"; else bad "$name in $precision: $(tail -n 1 verdict)"; fi
    done
}
recipe mnist-99 MNIST/raw/train-images-idx3-ubyte.gz MNIST/raw/train-images-idx3-ubyte
recipe svhn-90 train_32x32.mat
recipe cifar10-90 cifar-10-batches-bin/data_batch_1.bin
[ $((passed + failed)) -gt 0 ] || skip_all "accuracy: none of the recipes' data is in LOCKSTEP_DATA"
finish
