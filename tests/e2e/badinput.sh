#!/usr/bin/env bash
# badinput.sh LOCKSTEP: bad data, models, checkpoints and flags are normal input.
#
# Each case: exactly one line "lockstep: ..." on stderr (besides warnings) that names the thing, the right exit code (2 usage, 3 data
# or model, 4 checkpoint, 5 not finite), in bounded time and memory, and nothing made or overwritten.
# test: sanitize
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
unset LOCKSTEP_DATA # a set that is missing here must not be found elsewhere
export XDG_CACHE_HOME=$PWD/no-cache
command -v python3 >/dev/null || skip_all "python3 is not installed"
make() { python3 "$here/lib.py" "$@"; }
limit_kb=400000 # of addresses, for everything; the program alone has some 100,000
if is_sanitized; then limit_kb=unlimited; fi

# refused WHAT CODE PART COMMAND...: what the top says. Only `data check`, which reports, may write to stdout.
refused() {
    local what=$1 expected=$2 part=$3
    shift 3
    ls -A . >names.before
    (
        ulimit -v $limit_kb
        ulimit -t 20
        exec timeout $patience "$lockstep" "$@"
    ) >out 2>err </dev/null
    code=$?
    ls -A . >names.after
    if ! cmp -s names.before names.after; then
        bad "$what: left something behind: $(diff names.before names.after | grep '^[<>]')"
        rm -rf r
        return
    fi
    if [ -s out ] && [ "$1" != data ]; then bad "$what: wrote to stdout: $(head -c 200 out)"; return; fi
    one_line_error "$what" "$expected" "$part"
}
: >out
: >err
: >names.before
: >names.after
data() { mkdir -p data; rm -rf data/*; make "$1" data; } # a small, good data set of that kind
quick=(--data-dir data -b 16 -i 2 -q --json)

# bad_data SET MODEL WHAT PART: the set in data/ is refused by every command that reads it. The test split is not read by `info`.
bad_data() {
    refused "$3: train" 3 "$4" train "$2" "$1" "${quick[@]}" --run r
    refused "$3: data check" 3 "$4" data check "$1" --data-dir data
}

# good_data SET MODEL: before it is damaged, it works: what is refused below is refused for its damage
good_data() {
    rm -rf r
    "$lockstep" train "$2" "$1" "${quick[@]}" --run r >out 2>err </dev/null
    code=$?
    equal "$1, small but good: $(cat err)" $code 0
    rm -rf r
}

# --- IDX (mnist) ---
raw=data/MNIST/raw
data mnist
good_data mnist lenet5
data mnist; rm $raw/train-images-idx3-ubyte
bad_data mnist lenet5 'no images' 'mnist'
data mnist; truncate -s -1 $raw/train-images-idx3-ubyte
bad_data mnist lenet5 'images cut short' 'train-images-idx3-ubyte'
data mnist; printf x >>$raw/train-images-idx3-ubyte
bad_data mnist lenet5 'a byte too many' 'train-images-idx3-ubyte'
data mnist; truncate -s 10 $raw/train-images-idx3-ubyte
bad_data mnist lenet5 'header cut short' 'train-images-idx3-ubyte'
data mnist; : >$raw/train-images-idx3-ubyte
bad_data mnist lenet5 'empty images' 'train-images-idx3-ubyte'
data mnist; make blob $raw/train-images-idx3-ubyte idx_labels 40
bad_data mnist lenet5 'labels for images' 'magic'
data mnist; make blob $raw/train-labels-idx1-ubyte idx_labels 39
bad_data mnist lenet5 'too few labels' 'train-images-idx3-ubyte'
data mnist; make blob $raw/train-labels-idx1-ubyte idx_labels 40 10
bad_data mnist lenet5 'a label of 10' 'train-labels-idx1-ubyte'
data mnist; make blob $raw/train-labels-idx1-ubyte idx_labels 40 255
bad_data mnist lenet5 'a label of 255' '255'
data mnist; make blob $raw/train-images-idx3-ubyte hex 00000803 80000000 0000001c 0000001c
bad_data mnist lenet5 '2^31 images' 'train-images-idx3-ubyte'
data mnist; make blob $raw/train-images-idx3-ubyte hex 00000803 ffffffff ffffffff ffffffff
bad_data mnist lenet5 'sizes that overflow' 'train-images-idx3-ubyte'
data mnist; make blob $raw/train-images-idx3-ubyte idx_images 40 27 28
bad_data mnist lenet5 'images of 27x28' 'train-images-idx3-ubyte'
data mnist; truncate -s 100 $raw/t10k-images-idx3-ubyte
bad_data mnist lenet5 'test images cut short' 't10k-images-idx3-ubyte'
data mnist; rm $raw/train-images-idx3-ubyte; mkdir $raw/train-images-idx3-ubyte
bad_data mnist lenet5 'a folder for a file' 'mnist'
data mnist; rm $raw/train-images-idx3-ubyte; make bomb $raw/train-images-idx3-ubyte.gz 2000
bad_data mnist lenet5 'a gzip bomb (2 GB)' 'train-images-idx3-ubyte'
data mnist; gzip $raw/train-images-idx3-ubyte; truncate -s -100 $raw/train-images-idx3-ubyte.gz
bad_data mnist lenet5 'gzip cut short' 'train-images-idx3-ubyte'
data mnist; gzip $raw/train-images-idx3-ubyte; make flip $raw/train-images-idx3-ubyte.gz -3000
bad_data mnist lenet5 'gzip damaged' 'train-images-idx3-ubyte'

# --- CIFAR ---
raw=data/cifar-10-batches-bin
data cifar
good_data cifar10 svhn-cnn
data cifar; rm $raw/data_batch_3.bin
bad_data cifar10 svhn-cnn 'a batch is missing' 'data_batch_3'
data cifar; truncate -s -1 $raw/data_batch_2.bin
bad_data cifar10 svhn-cnn 'a batch cut short' 'data_batch_2.bin'
data cifar; : >$raw/data_batch_2.bin
bad_data cifar10 svhn-cnn 'an empty batch' 'data_batch_2.bin'
data cifar; printf '\012' | dd of=$raw/test_batch.bin bs=1 seek=3073 conv=notrunc 2>/dev/null
bad_data cifar10 svhn-cnn 'a label of 10' 'test_batch.bin'

# --- MAT (svhn) ---
data svhn
good_data svhn svhn-cnn
data svhn; truncate -s -200 data/train_32x32.mat
bad_data svhn svhn-cnn 'MAT cut short' 'train_32x32.mat'
data svhn; truncate -s 100 data/train_32x32.mat
bad_data svhn svhn-cnn 'MAT header cut short' 'train_32x32.mat'
data svhn; make flip data/train_32x32.mat 20000
bad_data svhn svhn-cnn 'MAT damaged' 'train_32x32.mat'
data svhn; printf 'PK\003\004' | dd of=data/train_32x32.mat conv=notrunc 2>/dev/null; head -c 5000 /dev/zero >data/train_32x32.mat
bad_data svhn svhn-cnn 'zeros for a MAT file' 'train_32x32.mat'
data svhn; make blob data/train_32x32.mat mat 20 11
bad_data svhn svhn-cnn 'a label of 11' 'train_32x32.mat'
data svhn; printf '\211HDF\r\n\032\n%0600d' 0 >data/train_32x32.mat
bad_data svhn svhn-cnn 'MAT 7.3 (HDF5)' 'train_32x32.mat'

# --- folders of pictures ---
rm -rf data
make folder pics
"$lockstep" train resnet-small folder:pics --resize 32 -b 4 -i 2 -q --json --run r >out 2>err </dev/null
code=$?
rm -rf r
if [ $code -eq 0 ]; then
    ok 'folder:, small but good'
    pics=(train resnet-small folder:pics --resize 32 -b 4 --epochs 1 -q --json --run r)
    # A picture is read when its turn comes, so the run has begun.
    cp pics/train/cat/1.png kept.png
    for damage in cut text empty; do
        case $damage in
            cut) truncate -s 60 pics/train/cat/1.png ;;
            text) echo 'not a picture' >pics/train/cat/1.png ;;
            empty) : >pics/train/cat/1.png ;;
        esac
        "$lockstep" "${pics[@]}" >out 2>err </dev/null
        code=$?
        one_line_error "a picture: $damage" 3 'train/cat/1.png'
        if [ -n "$(newest_of r)" ]; then bad "a picture: $damage: left a checkpoint"; fi
        rm -rf r
        cp kept.png pics/train/cat/1.png
    done
    # A header that claims 65500x65500: refused before anything is decoded.
    python3 - <<'END'
import struct, zlib
def chunk(kind, blob):
    return struct.pack(">I", len(blob)) + kind + blob + struct.pack(">I", zlib.crc32(kind + blob))
open("pics/train/cat/1.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 65500, 65500, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b""))
END
    (ulimit -v $limit_kb; exec "$lockstep" "${pics[@]}") >out 2>err </dev/null
    code=$?
    one_line_error 'a picture of 65500x65500' 3 'train/cat/1.png'
    rm -rf r pics/train/cat
    mkdir -p pics/train/cat
    refused 'a class without pictures' 3 'cat' "${pics[@]}"
    rm -rf pics/train pics/test
    refused 'a folder without classes' 3 'pics' "${pics[@]}"
    rm -rf pics kept.png
else
    rm -rf pics
    if grep -q 'build' err; then skipped "folders of pictures: $(cat err)"; else bad "folder:, small but good: $(cat err)"; fi
fi
refused 'folder: that is not there' 3 'nowhere' train resnet-small folder:nowhere -q --run r
refused 'a set that is not downloaded' 3 'fetch' train lenet5 mnist --data-dir empty -q --run r

# --- fake: ---
for spec in fake: fake:1x28x28 fake:0x28x28:10:5 fake:1x28x28:0:5 fake:1x28x28:10:0 fake:1x28x28:10:-5 fake:1x28x28:10:5:5 \
    fake:99999999999x28x28:10:5 fake:65536x65536x65536:10:1000000000 fake:1x28x28:10:99999999999999999999 fake:axbxc:1:1 fake:1x28x28:99999999:5; do
    (ulimit -v $limit_kb -t 20; exec timeout $patience "$lockstep" train lenet5 "$spec" -q --run r) >out 2>err </dev/null
    code=$?
    if [ $code -eq 2 ] || [ $code -eq 3 ] || { [ $code -eq 1 ] && grep -q memory err; }; then one_line_error "$spec" $code ''; else bad "$spec: exit $code: $(cat err)"; fi
    if [ -e r ]; then bad "$spec: left a run directory"; rm -rf r; fi
done

# --- models ---
model() { cat >bad.net; }
bad_model() { # WHAT PART
    refused "$1: train" 3 "$2" train ./bad.net fake:1x28x28:10:64 -q --run r
    refused "$1: plan" 3 "$2" plan ./bad.net
}
: >bad.net
bad_model 'an empty model' 'bad.net'
head -c 3000 /dev/urandom >bad.net
bad_model 'random bytes' 'bad.net'
printf 'model x\ninput any\nmaxpol 2\nflatten\nlinear fc classes\n' | model
bad_model 'a statement misspelt' 'bad.net:3'
printf 'model x\ninput any\nconv c 8 5\nlinear fc classes\n' | model
bad_model 'no flatten' 'bad.net:4'
printf 'model x\ninput any\nmaxpool 2\nmaxpool 2\nmaxpool 2\nmaxpool 2\nconv c 8 9\nflatten\nlinear fc classes\n' | model
refused 'a kernel that does not fit' 3 'bad.net:7' train ./bad.net fake:1x28x28:10:64 -q --run r
printf 'model x\ninput any\nflatten\nlinear fc 7\n' | model
refused 'outputs that are not classes' 3 'bad.net' train ./bad.net fake:1x28x28:10:64 -q --run r
printf 'model x\ninput 3x32x32\nflatten\nlinear fc classes\n' | model
refused 'data of another shape' 3 '3x32x32' train ./bad.net fake:1x28x28:10:64 -q --run r
printf 'model x\ninput any\nconv c 1000000 3 pad=1\nconv d 1000000 3 pad=1\nflatten\nlinear fc classes\n' | model
refused 'a model of 10^13 parameters' 3 'bad.net' train ./bad.net fake:1x28x28:10:64 -q --run r
printf 'model x\ninput any\nflatten\nlinear a 1000000\nlinear fc classes\n' | model
if ! is_sanitized; then refused 'a model of 3 GB with little memory' 1 'memory' train ./bad.net fake:1x28x28:10:64 -q --run r; fi
printf 'model x\ninput any\nblock a\nuse a b\nend\nuse a c\nflatten\nlinear fc classes\n' | model
bad_model 'a block that uses itself' 'bad.net'
# A million layers, written out and by blocks: refused at once.
begin=$(children_ms)
(printf 'model x\ninput any\n'; yes relu | head -n 1000000; printf 'flatten\nlinear fc classes\n') | model
bad_model 'a million lines' 'bad.net'
python3 - >bad.net <<'END'
print("model x\ninput any")
for i in range(6):
    print("block b%d" % i)
    for j in range(10):
        print("    relu" if i == 0 else "    use b%d x%d" % (i - 1, j))
    print("end")
print("use b5 y\nflatten\nlinear fc classes")
END
bad_model 'a million layers by blocks' 'bad.net'
ms=$(($(children_ms) - begin))
if [ $ms -lt 5000 ]; then ok "a million layers: four refusals in $ms ms of CPU"; else bad "a million layers: $ms ms"; fi
refused 'a model file that is not there' 3 'nofile.net' train ./nofile.net fake:1x28x28:10:64 -q --run r
mkdir -p folder.net
refused 'a folder for a model' 3 'folder.net' train ./folder.net fake:1x28x28:10:64 -q --run r
rm -rf bad.net folder.net

# --- checkpoints ---
tiny=(softmax fake:1x28x28:10:96 -b 32 --shards 4 -p 1)
"$lockstep" train "${tiny[@]}" --epochs 2 --run good -q --json >out 2>err || bad "a run to damage: $(cat err)"
"$lockstep" train mlp fake:1x28x28:10:96 -b 32 --epochs 1 --run other -q --json >out 2>err || bad "another run: $(cat err)"
cp good/checkpoints/step-00000006.safetensors whole.safetensors
bad_checkpoint() { # WHAT PART
    local sum
    sum=$(sha256sum bad.safetensors)
    refused "$1: eval" 4 "$2" eval bad.safetensors
    refused "$1: inspect" 4 "$2" inspect bad.safetensors
    refused "$1: --resume" 4 "$2" train "${tiny[@]}" --epochs 2 -q --run r --resume bad.safetensors
    [ "$(sha256sum bad.safetensors)" = "$sum" ] || bad "$1: the file was changed"
}
size=$(stat -c %s whole.safetensors)
cp whole.safetensors bad.safetensors
for cut in 0 1 7 8 100 1000 $((size / 2)) $((size - 1)); do
    cp whole.safetensors bad.safetensors
    truncate -s $cut bad.safetensors
    bad_checkpoint "cut to $cut bytes" 'bad.safetensors'
done
for at in 0 5 9 20 60 300 700 $((size - 1)); do
    cp whole.safetensors bad.safetensors
    make flip bad.safetensors "$at"
    bad_checkpoint "a bit flipped at byte $at" 'bad.safetensors'
done
head -c 4096 /dev/urandom >bad.safetensors
bad_checkpoint 'random bytes' 'bad.safetensors'
printf '\377\377\377\377\377\377\377\177{}' >bad.safetensors
bad_checkpoint 'a header of 2^63 bytes' 'bad.safetensors'
make safetensors bad.safetensors '{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}'
bad_checkpoint 'a shape that overflows' 'bad.safetensors'
make safetensors bad.safetensors '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}' 12
bad_checkpoint 'tensors that overlap' 'bad.safetensors'
make safetensors bad.safetensors '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' 8
refused "another program's file: eval" 4 'does not say which model' eval bad.safetensors
refused "another program's file: --resume" 4 'bad.safetensors' train "${tiny[@]}" -q --run r --resume bad.safetensors
# Our own metadata, but somebody else's values.
python3 - "$here" <<'END'
import json, struct, sys
blob = open("whole.safetensors", "rb").read()
(n,) = struct.unpack("<Q", blob[:8])
header, data = json.loads(blob[8 : 8 + n]), blob[8 + n :]
meta = header["__metadata__"]
del meta["lockstep.checksum"], meta["lockstep.format"]
def write(name, **changes):
    h = dict(header, __metadata__=dict(meta, **changes))
    text = json.dumps(h).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + data)
write("hostile-step.safetensors", step="99999999999999999999")
write("hostile-tally.safetensors", epoch_tally="nan 1 1")
write("hostile-position.safetensors", step="3", epoch="7", epoch_step="3000000")
write("hostile-model.safetensors", model="../../../../etc/passwd", model_text="model x\ninput any\nflatten\nlinear fc 3\n")
write("hostile-data.safetensors", data="folder:/nonexistent")
write("plain.safetensors")
END
resume_hostile() { refused "$1: --resume" 4 "$1" train "${tiny[@]}" --epochs 2 -q --run r --resume "$1"; }
resume_hostile hostile-step.safetensors
resume_hostile hostile-tally.safetensors
resume_hostile hostile-position.safetensors
refused 'hostile model: eval' 3 'hostile-model' eval hostile-model.safetensors
refused 'hostile data: eval' 3 '/nonexistent' eval hostile-data.safetensors
"$lockstep" eval plain.safetensors --json >out 2>err
equal 'the same file unchanged is taken' "$? $(field weights_hash)" "0 $(field weights_hash good/result.json)"

cp other/checkpoints/step-00000003.safetensors bad.safetensors
refused "another model's checkpoint: --resume" 4 "model 'mlp', this run has 'softmax'" train "${tiny[@]}" -q --run r --resume bad.safetensors
refused 'a checkpoint on other data' 4 'fc.weight' eval good fake:3x32x32:10:64
refused 'a run without checkpoints' 4 'norun' eval norun
mkdir -p norun
refused 'an empty folder: eval' 4 'norun' eval norun
refused 'an empty folder: inspect' 4 'norun' inspect norun
rmdir norun

# --- flags ---
flag() { refused "train $*" 2 '--' train "${tiny[@]}" --run r -q "$@"; }
flag -b 0
flag -b -1
flag -b 1e3
flag -b 99999999999999999999
flag --epochs 0
flag --shards -1
flag --threads -1
flag --threads 1000000
flag --lr nan
flag --lr inf
flag --momentum 2
flag --label-smoothing 1.5
flag --crop-pad -1
flag --resize 0
flag --resize axb
flag --resize 99999999
flag --checkpoint-every sometimes
flag --checkpoint-every 0
flag --keep 0
flag --schedule never
flag --schedule multistep --milestones a,b
flag --schedule multistep
flag --milestones 5,3 --schedule multistep
flag --optimizer adam
for wrong in nonsense openmpi/../openmpi; do
    LOCKSTEP_MPI=$wrong refused "LOCKSTEP_MPI=$wrong" 2 "LOCKSTEP_MPI is \"$wrong\"; expected openmpi or mpich" train "${tiny[@]}" -w 2 --run r -q
    LOCKSTEP_MPI=$wrong OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 refused "LOCKSTEP_MPI=$wrong, a worker" 2 'expected openmpi or mpich' train "${tiny[@]}" --run r -q
done

# --- not finite ---
for model in softmax lenet5 resnet-small; do
    shape=1x28x28
    if [ $model = resnet-small ]; then shape=3x32x32; fi
    rm -rf r
    "$lockstep" train $model fake:$shape:10:96 -b 32 --shards 4 --epochs 3 --lr 1e6 --schedule constant --checkpoint-every 1 --keep 9 -q --json --run r \
        >out 2>err </dev/null
    code=$?
    one_line_error "$model with --lr 1e6" 5 'step'
    if grep -qE 'step [0-9]+: .* of layer [a-z]' err; then ok "$model: names the layer"; else bad "$model: no step and layer in: $(cat err)"; fi
    for file in r/checkpoints/step-*; do
        [ -e "$file" ] || continue
        make finite "$file" || bad "$model: $file holds values that are not finite"
    done
    "$lockstep" inspect r >out 2>err || bad "$model: the run is damaged: $(cat err)"
done
"$lockstep" train lenet5 fake:1x28x28:10:96 -b 32 --epochs 3 --lr 1e6 --schedule constant --optimizer adamw --run r2 -q >out 2>err </dev/null
code=$?
one_line_error 'adamw with --lr 1e6' 5 'step'
# A single step far too long: only the evaluation sees what it did.
"$lockstep" train softmax digits --lr 1e5 --momentum 0 -i 1 --run r3 -q --json >out 2>err </dev/null
code=$?
one_line_error 'weights that diverged in the last step' 5 'evaluation: the loss is not finite, or above'
has 'and what to do' err 'train again with a lower --lr, --warmup-epochs or --clip-norm'
if [ -e r3/result.json ]; then bad 'a diverged evaluation leaves a result'; else ok 'a diverged evaluation leaves no result'; fi

finish
