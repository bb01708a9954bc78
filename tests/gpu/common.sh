# shellcheck shell=bash
# common.sh: what the parts of tests/gpu share. Sourced with the script's arguments; after it the working directory is a temporary
# folder, as after e2e/lib.sh.
#
# From the environment: DEVICE (cuda; with ref or cpu the parts themselves can be tried where there is no card), PRECISIONS (those of the
# device).
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
# shellcheck disable=SC2034 # the parts read them
build=$(dirname "$lockstep")
gpu=$here/../gpu
device=${DEVICE:-cuda}
if [ "$device" = cuda ]; then precisions=${PRECISIONS:-f32 tf32 bf16}; else precisions=${PRECISIONS:-f32}; fi
[ -n "${LOCKSTEP_PLUGINS:-}" ] || export LOCKSTEP_PLUGINS=$build
has_precision() { [[ " $precisions " == *" $1 "* ]]; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# on NAME DEVICE ARGS...: trains; result in NAME.DEVICE.out; prints the hash
on() {
    local name=$1 where=$2
    shift 2
    rm -rf "$name.$where"
    "$lockstep" train "$@" --device "$where" --run "$name.$where" --json >"$name.$where.out" 2>"$name.$where.err" ||
        note "$name on $where: exit $?: $(tail -n 1 "$name.$where.err")" >&2
    field weights_hash "$name.$where.out"
}

# close WHAT A B TOLERANCE: relative
close() {
    if python3 -c 'import sys; a, b, t = map(float, sys.argv[1:]); sys.exit(not abs(a - b) <= t * max(1e-3, abs(b)))' "$2" "$3" "$4" 2>/dev/null
    then ok "$1: $2, expected $3"; else bad "$1: $2, expected $3"; fi
}

# What the zoo's networks do not have: every activation, group and layer norm, pools of every kind.
cat >every.net <<'NET'
model every
input any
conv c1 16 3 pad=1
groupnorm n1 4
gelu
avgpool 3 stride=2 pad=1 countpad=no
conv c2 24 3 pad=1
layernorm n2
silu
maxpool 3 stride=2 dilation=2
conv c3 16 3 pad=1
hardswish
conv c4 16 1
gelu tanh=yes
conv c5 16 1
leakyrelu
conv c6 16 1
relu6
conv c7 16 1
layernorm n3 image=yes
tanh
adaptiveavgpool 4x3
flatten
linear f1 20
sigmoid
linear f2 classes
NET

