#!/usr/bin/env bash
# kernels.sh LOCKSTEP: no plan of the zoo, nor of a net that mixes our layouts with the library's, falls back to slow reference
# kernels for convolution, batch norm or pooling; at every level of instructions that this machine has.
source "$(dirname "$0")/lib.sh"

"$lockstep" --version | grep -q oneDNN || skip_all "this build has no oneDNN, so everything is computed by reference kernels"

cat > mixed.net <<'NET'
model mixed
input any
conv conv1 8 5
bn bn1
relu
maxpool 2
conv conv2 8 3 pad=1
relu
maxpool 3 stride=2 pad=1
conv conv3 8 3 pad=1
relu
avgpool 2
flatten
linear fc classes
NET

check() { # MODEL [OPTIONS]
    local text
    if ! text=$("$lockstep" plan "$@" 2>&1); then bad "plan $*: $text"; return; fi
    text=$(printf '%s\n' "$text" | grep -E '^ *[0-9]+ +(conv2d|batchnorm|maxpool|avgpool)' | grep -E ' (ref|dnnl:[^ ]*ref[^ ]*|dnnl:simple[^ ]*) ')
    if [ -z "$text" ]; then ok "plan $*: no reference kernels"; else bad "plan $*: $text"; fi
}

levels=avx2
if "$lockstep" --version | grep -q 'instruction set:.* avx512f'; then levels="avx512 avx2"; fi
for level in $levels; do
    for model in softmax mlp lenet5 svhn-cnn alexnet vgg11 resnet18 resnet-small resnet18-224; do check "$model" -b 32 --isa "$level"; done
    check svhn-cnn -b 4 --isa "$level"
    check ./mixed.net -b 32 --isa "$level"
    check ./mixed.net -b 32 --input 3x32x32 --isa "$level"
done
finish
