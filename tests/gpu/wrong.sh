#!/usr/bin/env bash
# wrong.sh LOCKSTEP: what goes wrong: values that are not finite, no card, too large a batch, too many cards. It fills the card: nothing else
# may use it meanwhile (run sees to that).
source "$(dirname "$0")/common.sh"
[ "$device" = cuda ] || skip_all "these are errors of cards"
"$lockstep" train lenet5 digits -i 30 --lr 1e6 --device cuda --run nan >nan.out 2>nan.err
equal "exit code of a diverging run" $? 5
has "it names the layer" nan.err "came out of"
CUDA_VISIBLE_DEVICES='' "$lockstep" train softmax digits -i 1 --device cuda --run none >none.out 2>none.err
equal "exit code without a card" $? 1
has "it says so" none.err "no NVIDIA card"
"$lockstep" train vgg16 fake:3x224x224:1000:16384 -b 16384 --shards 1 -i 1 --device cuda --run big >big.out 2>big.err
equal "exit code of a batch that does not fit" $? 1
has "it says how much" big.err "MiB"
note "$(tail -n 1 big.err)"
"$lockstep" train softmax digits -i 1 --device cuda --gpus 99 --shards 99 -b 198 --run many >many.out 2>many.err
equal "exit code of more cards than there are" $? 1
has "it counts them" many.err "to be seen here"
note "$(grep -m 1 'to be seen here' many.err)"
finish
