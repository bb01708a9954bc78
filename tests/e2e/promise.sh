#!/usr/bin/env bash
# promise.sh LOCKSTEP: the weights depend on the model, the data, the seed, the batch and the shards, never on the threads.
#
# For each model and each kind of randomness and rounding: the same hash and the same metrics for 1, 2, 3, 4 and 7 threads (on
# a small machine that is more threads than cores, so the order in which shards end is another each time). And another hash
# for another seed, batch or number of shards: what could not differ would prove nothing.
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"

# for_threads WHAT "1 2 3" ARGS...: one hash, and the same metrics, whatever the threads
for_threads() {
    local what=$1 counts=$2 first='' hash n
    shift 2
    for n in $counts; do
        rm -rf "run-$n"
        hash=$(hash_of "$@" -t "$n" --run "run-$n")
        if [ ${#hash} -ne 32 ]; then bad "$what: $n threads: $hash"; return; fi
        metrics_of "run-$n" >"metrics-$n"
        if [ -z "$first" ]; then first=$n only=$hash; continue; fi
        if [ "$hash" != "$only" ]; then bad "$what: $n threads give $hash, $first gives $only"; return; fi
        if ! cmp -s "metrics-$n" "metrics-$first"; then
            bad "$what: metrics of $n and $first threads differ: $(diff "metrics-$n" "metrics-$first" | head -n 4)"
            return
        fi
    done
    ok "$what: $only for $counts threads"
}

grey=fake:1x28x28:10:150 colour=fake:3x32x32:10:100
all='1 2 3 4 7'

cat >dropout.net <<'END'
model dropout
input any
conv conv1 8 3 pad=1
relu
dropout 0.3
maxpool 2
flatten
linear fc1 40
relu
dropout 0.5
linear fc2 classes
END
cat >mixed.net <<'END'
# Batch norm, branches of both kinds, average pooling, groups, dropout and local response normalisation at once.
model mixed
input any
conv conv1 8 3 pad=1 bias=no
bn bn1
relu
keep x
conv conv2 8 3 pad=1 groups=4
lrn 5
add x
relu
keep y
conv conv3 4 1
concat y
avgpool 2
dropout 0.2
globalavgpool
flatten
linear fc classes
END

cat >every.net <<'END'
# Activations, norms and pools that no network of the zoo has.
model every
input any
conv c1 24 3 pad=1
groupnorm g1 4
gelu
conv c2 24 3 pad=1 groups=24 stride=2
layernorm l1
silu
maxpool 3 stride=2 ceil=yes
conv c3 17 1
sigmoid
hardswish
avgpool 3 stride=2 pad=1 ceil=yes countpad=no
leakyrelu
layernorm l2 image=yes
adaptiveavgpool 3x3
gelu tanh=yes
flatten
linear f1 40
layernorm l3
tanh
relu6
linear f2 classes
END

# --- the zoo ---
for_threads 'softmax' "$all" softmax $grey -b 28 --shards 7 --epochs 3 -p 1
for_threads 'lenet5' "$all" lenet5 $grey -b 28 --shards 7 --epochs 3 -p 1
for_threads 'svhn-cnn' "$all" svhn-cnn $colour -b 28 --shards 7 --epochs 2 -p 1
for_threads 'svhn-cnn, default shards' "$all" svhn-cnn $colour -b 16 --epochs 2 -p 1
for_threads 'resnet-small' "$all" resnet-small $colour -b 28 --shards 7 -i 5 -p 1
for_threads 'resnet18' '1 2 3 4 7' resnet18 $colour -b 14 --shards 7 -i 2 -p 1 --no-eval --checkpoint-every none

# --- what draws random numbers ---
for_threads 'dropout' "$all" ./dropout.net $grey -b 28 --shards 7 --epochs 2 -p 1
for_threads 'mixed layers' "$all" ./mixed.net $colour -b 28 --shards 7 --epochs 2 -p 1
for_threads 'augmentation' "$all" svhn-cnn $colour -b 28 --shards 7 --epochs 3 -p 1 --crop-pad 4 --flip --cutout 8
plain=$(hash_of svhn-cnn $colour -b 28 --shards 7 --epochs 3 --run plain)
differs 'augmentation changes the result' "$plain" "$only"

for_threads 'crops, colours, erasing' "$all" svhn-cnn $colour -b 28 --shards 7 --epochs 2 -p 1 --flip --resized-crop 0.2 --brightness 0.4 \
    --contrast 0.4 --saturation 0.4 --hue 0.1 --erasing 0.5
differs 'crops, colours and erasing change the result' "$plain" "$only"
for_threads 'mixup and cutmix' "$all" svhn-cnn $colour -b 28 --shards 7 --epochs 2 -p 1 --mixup 0.2 --cutmix 1 --label-smoothing 0.1
both=$only
for_threads 'mixup and cutmix on ref' '1 3' lenet5 $grey -b 28 --shards 4 --epochs 1 -p 1 --mixup 0.2 --cutmix 1 --device ref
differs 'mixup alone' "$(hash_of svhn-cnn $colour -b 28 --shards 7 --epochs 2 --mixup 0.2 --label-smoothing 0.1 --run mixup)" "$both"
for_threads 'every layer' "$all" ./every.net $colour -b 28 --shards 7 -i 5 -p 1
for_threads 'every layer, validation, some frozen, mixed' '1 3' ./every.net $colour -b 28 --shards 7 --epochs 2 -p 1 --validation 0.2 --mixup 0.2 \
    --cutmix 1 --freeze 'c1.*,g1.*,l2.weight' --lr-of 'f2.*=x0.5'

# --- optimizers and schedules ---
for_threads 'nesterov, decay, clipping, smoothing' "$all" lenet5 $grey -b 28 --shards 7 --epochs 2 -p 1 \
    --nesterov --momentum 0.8 --weight-decay 5e-4 --clip-norm 0.5 --label-smoothing 0.1 --warmup-epochs 0.5
for_threads 'adamw, onecycle' "$all" ./mixed.net $colour -b 28 --shards 7 --epochs 2 -p 1 \
    --optimizer adamw --weight-decay 0.01 --clip-norm 1 --schedule onecycle

# --- batches that do not divide: a smaller last shard, a smaller last batch, a batch larger than the set ---
for_threads 'odd batch' "$all" ./mixed.net fake:1x12x12:5:101 -b 25 --shards 7 --epochs 4 -p 3
for_threads 'last batch of one' "$all" lenet5 fake:1x28x28:10:57 -b 28 --shards 7 --epochs 3 -p 1
for_threads 'batch of one' '1 2' lenet5 fake:1x28x28:10:5 -b 1 --epochs 2 -p 1
for_threads 'batch larger than the set' "$all" lenet5 fake:1x28x28:10:33 -b 512 --shards 8 --epochs 3 -p 1
for_threads 'a set of one image' '1 2' lenet5 fake:1x28x28:10:1 -b 4 --epochs 2 -p 1

# --- the reference backend keeps the promise as well ---
for_threads 'ref' "$all" ./mixed.net fake:1x12x12:5:60 -b 28 --shards 7 --epochs 2 -p 1 --device ref
for_threads 'ref, dropout, adamw' "$all" ./dropout.net fake:1x12x12:5:60 -b 28 --shards 7 --epochs 2 --device ref --optimizer adamw

# --- other ways to sum keep it too ---
for_threads 'local SGD' '1 2 3' lenet5 fake:1x28x28:10:57 -b 28 --shards 7 --epochs 3 --sync local:2 -p 1
for_threads 'compressed to 8 bits' '1 2 3' lenet5 fake:1x28x28:10:57 -b 28 --shards 7 --epochs 3 --compress 8 -p 1

# --- built-in data ---
for_threads 'digits' '1 7' lenet5 digits -b 128 -i 12 -p 4

# --- the same command again, and in a crowd ---
base=(./mixed.net "$colour" -b 28 --shards 7 --epochs 2 -p 1)
hash=$(hash_of "${base[@]}" --run again-0)
for i in 1 2 3; do equal "again $i" "$(hash_of "${base[@]}" -t 2 --run again-$i)" "$hash"; done
for i in 1 2 3; do
    "$lockstep" train "${base[@]}" -t 7 --run crowd-$i --json -q >crowd-$i.json 2>crowd-$i.err </dev/null &
    crowd[i]=$!
    pids+=($!)
done
for i in 1 2 3; do
    wait "${crowd[i]}"
    equal "three runs of 7 threads at a time, $i" "$(field weights_hash crowd-$i.json)" "$hash"
done

# --- what must differ does ---
differs 'another seed' "$(hash_of "${base[@]}" --seed 2 --run seed)" "$hash"
differs 'another batch' "$(hash_of ./mixed.net $colour -b 27 --shards 7 --epochs 2 --run batch)" "$hash"
differs 'other shards' "$(hash_of ./mixed.net $colour -b 28 --shards 14 --epochs 2 --run shards)" "$hash"
differs 'another rate' "$(hash_of "${base[@]}" --lr 0.0500001 --run rate)" "$hash"
differs 'another model' "$(hash_of ./dropout.net $colour -b 28 --shards 7 --epochs 2 --run model)" "$hash"
differs 'other data' "$(hash_of ./mixed.net fake:3x32x32:10:101 -b 28 --shards 7 --epochs 2 --run data)" "$hash"
# What may not: how the run is watched.
equal 'other logging, checkpoints, evaluation' \
    "$(hash_of ./mixed.net $colour -b 28 --shards 7 --epochs 2 -p 0 --no-eval --checkpoint-every 3 --run watch)" "$hash"
# What is kept and what is computed again is nobody's business.
equal 'low memory' "$(hash_of "${base[@]}" --memory low --run low)" "$hash"
low=("resnet-small" fake:3x32x32:10:64 -b 16 -i 3 --no-eval)
equal 'low memory, residual net' "$(hash_of "${low[@]}" --memory low --run low-res)" "$(hash_of "${low[@]}" --run high-res)"

finish
