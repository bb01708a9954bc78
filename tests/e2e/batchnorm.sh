#!/usr/bin/env bash
# batchnorm.sh LOCKSTEP: batch norm as a person uses it: behind linear layers, in shards that are too small for it.
# test: sanitize
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"

cat >vectors.net <<'END'
model vectors
input any
flatten
linear fc1 32 bias=no
bn bn1
relu
linear fc2 classes
END

# As BatchNorm1d: with PyTorch's names, trained, the same bits however it is computed.
one=$(hash_of vectors.net digits -b 64 -i 40 --run one --threads 1)
two=$(hash_of vectors.net digits -b 64 -i 40 --run two --threads 2)
equal "batch norm of vectors: one thread, two threads" "$two" "$one"
"$lockstep" inspect "$(newest_of one)" >out 2>&1
for name in bn1.weight bn1.bias bn1.running_mean bn1.running_var; do has "$name is in the checkpoint" out "$name"; done
loss=$(field test_loss one/result.json)
if python3 -c "import sys; sys.exit(not float('$loss') < 1.5)"; then ok "it learns"; else bad "after 40 steps the loss is $loss"; fi

# One value per channel trains nothing.
"$lockstep" train vectors.net fake:1x4x4:4:64 -b 8 --shards 8 -i 1 --run no -q >out 2>err
equal "shards of one sample before batch norm are refused" "$?" 2
has "the layer is named" err "vectors.net:5: bn bn1"
has "and what works" err "--shards 4 does not"
[ -e no ] && bad "a refused run left a directory"
"$lockstep" train vectors.net fake:1x4x4:4:65 -b 16 -i 1 --run no -q >out 2>err
equal "a last batch of one sample too" "$?" 2
has "and a batch size that works" err "-b 17 does not"
train vectors.net fake:1x4x4:4:64 -b 4 -i 2 --run few >out 2>err
equal "a small batch gets fewer shards by itself" "$(field shards few/result.json)" 2
has "and says so" err "2 shards instead of 4"

finish
