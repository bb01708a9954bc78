#!/usr/bin/env bash
# ops.sh LOCKSTEP: every op, forward and backward, against ref, in every precision. A process per file of cases, some side by side: most of the
# time is ref's. From the environment: TEST_OPS (the program; beside LOCKSTEP when unset), OPS (the names of some files), OPS_JOBS (how many side
# by side), SANITIZE=1 (compute-sanitizer, minutes).
source "$(dirname "$0")/common.sh"
test_ops=${TEST_OPS:-$build/tests/test_ops}
[ -x "$test_ops" ] || test_ops=$build/test_ops
[ -x "$test_ops" ] || skip_all "ops: $build/test_ops is not there"
cases=$gpu/../ops
n_jobs=${OPS_JOBS:-$(nproc)}
[ "$n_jobs" -le 12 ] || n_jobs=12
names=${OPS:-conv2d linear batchnorm maxpool $(cd "$cases" && ls ./*.cases | sed 's/.cases$//; s/^..//' | grep -vx -e conv2d -e linear -e batchnorm -e maxpool)} # the long ones first

# one PRECISION NAME
one() {
    local options=(--backend "$device")
    [ "$device" != cuda ] || options+=(--precision "$1")
    [ "$device" != cuda ] || [ "$1" != f32 ] || options+=(--tolerance 1e-5)
    timeout 150 "$test_ops" "${options[@]}" "$cases/$2.cases" >"$1.$2.out" 2>&1
    echo $? >"$1.$2.code"
}

# told PRECISION: what came of it
told() {
    local precision=$1 name n=0 code
    for name in $names; do
        code=$(cat "$precision.$name.code" 2>/dev/null || echo "none")
        if [ "$code" = 0 ]; then n=$((n + $(sed -n '$s/^\([0-9]*\) passed.*/\1/p' "$precision.$name.out")))
        elif [ "$code" = 124 ]; then bad "ops in $precision: $name did not end within 150 s"
        else
            bad "ops in $precision: $name: exit code $code: $(tail -n 1 "$precision.$name.out")"
            grep -A 1 '^FAIL' "$precision.$name.out" | head -n 12
        fi
    done
    if [ "$n" -gt 0 ]; then ok "ops in $precision: $n passed"; else bad "ops in $precision: none passed"; fi
}

for precision in $precisions; do
    for name in $names; do
        while [ "$(jobs -rp | wc -l)" -ge "$n_jobs" ]; do wait -n; done
        one "$precision" "$name" &
    done
done
wait
for precision in $precisions; do told "$precision"; done

sanitized() { # TOOL FILE [PRECISION]
    if compute-sanitizer --tool "$1" --error-exitcode 9 --leak-check no "$test_ops" --backend cuda --precision "${3:-bf16}" "$cases/$2.cases" >ops.out 2>&1
    then ok "$2 under $1: $(tail -n 1 ops.out)"; else bad "$2 under $1: $(tail -n 1 ops.out)"; grep -A 1 '^FAIL' ops.out | head -n 12; fi
}
if [ "${SANITIZE:-0}" -ne 0 ]; then
    for f in batchnorm softmax_ce bias maxpool avgpool reduce sgd adamw relu add dropout load linear activation groupnorm layernorm; do sanitized memcheck $f; done
    for f in batchnorm load groupnorm layernorm; do sanitized racecheck $f; done
    for f in maxpool linear relu softmax_ce; do sanitized synccheck $f f32; done # kernels of small networks, whose blocks meet
fi
finish
