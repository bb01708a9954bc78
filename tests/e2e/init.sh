#!/usr/bin/env bash
# init.sh LOCKSTEP: starting from weights that are there: --init, --init-skip, --freeze, --lr-of.
#
# 1. Weights by name, of 32 and 16 bits, to the bit; what does not fit is refused and named. 2. The same for any number of threads and workers; a
# resume does not need the file. 3. Frozen parameters stay, the others train as if nothing were frozen. 4. Rates by name.
# test: sanitize
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
cat >net.net <<'END'
model net
input any
conv conv1 4 3 pad=1 bias=no
bn bn1
relu
conv conv2 4 3 pad=1
bn bn2
relu
flatten
linear fc1 8
relu
linear fc2 classes
END
cat >st.py <<'END'
"""st.py make FILE DTYPE [CHANGE...]: tensors of net.net for 4 classes; st.py show FILE NAME; st.py same A B PREFIX...: those that are equal"""
import json, random, struct, sys
SHAPES = {"conv1.weight": [4, 1, 3, 3], "bn1.weight": [4], "bn1.bias": [4], "bn1.running_mean": [4], "bn1.running_var": [4], "conv2.weight": [4, 4, 3, 3],
          "conv2.bias": [4], "bn2.weight": [4], "bn2.bias": [4], "bn2.running_mean": [4], "bn2.running_var": [4], "fc1.weight": [8, 256], "fc1.bias": [8],
          "fc2.weight": [4, 8], "fc2.bias": [4]}
FORMS = {"F32": ("f", 4), "F16": ("e", 2), "BF16": (None, 2)}
def pack(values, dtype):
    if dtype == "BF16": return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack("<%d%s" % (len(values), FORMS[dtype][0]), *values)
def count(shape):
    n = 1
    for d in shape: n *= d
    return n
def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    out = {}
    for name, t in head.items():
        raw = data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16": out[name] = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
        elif t["dtype"] == "F16": out[name] = struct.pack("<%df" % (len(raw) // 2), *struct.unpack("<%de" % (len(raw) // 2), raw))
        else: out[name] = raw
    return out
def make(path, dtype, *changes):
    r, shapes, prefix, values = random.Random(5), dict(SHAPES), "", {}
    for c in changes:
        key, value = c.split("=")
        if key == "prefix": prefix = value
        elif key == "drop": del shapes[value]
        elif key == "put": values["fc1.bias"] = float(value)
        elif key == "add": shapes[value] = [3]
        else: shapes[key] = [int(d) for d in value.split("x")]
    head, blob = {}, b""
    for name, shape in shapes.items():
        v = [r.choice([-1, 1]) * r.uniform(0.01, 0.3) for _ in range(count(shape))]
        if "var" in name or name.startswith("bn") and "weight" in name: v = [abs(x) + 0.5 for x in v]
        if name == "conv2.bias": v[:4] = [0.0, -0.0, 2.0 ** -24 * 3, -(2.0 ** -15)]  # zeros and, of 16 bits, numbers below the normal ones
        if name in values: v[1] = values[name]
        raw = pack(v, dtype)
        head[prefix + name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + blob)
def same(a, b):
    a, b = read(a), read(b)
    print(" ".join(n for n in SHAPES if n in a and n in b and a[n] == b[n]))
{"make": make, "same": same}[sys.argv[1]](*sys.argv[2:])
END
all='conv1.weight bn1.weight bn1.bias bn1.running_mean bn1.running_var conv2.weight conv2.bias bn2.weight bn2.bias bn2.running_mean bn2.running_var fc1.weight fc1.bias fc2.weight fc2.bias'
data=fake:1x8x8:4:40
base=(./net.net "$data" -b 20 --shards 4 --momentum 0 --schedule constant -p 1)
latest() { echo "$1/checkpoints/latest.safetensors"; }
same() { python3 st.py same "$1" "$2"; }

# --- 1. what goes in ---
for dtype in F32 F16 BF16; do
    python3 st.py make $dtype.safetensors $dtype
    rm -rf one
    train "${base[@]}" --init $dtype.safetensors --freeze '[!f]*' --lr 0 -i 1 --run one
    equal "$dtype: exit code, every tensor to the bit" "$code $(same $dtype.safetensors "$(latest one)")" "0 $all"
done
python3 st.py make module.safetensors F32 prefix=module.
train "${base[@]}" --init module.safetensors --freeze '[!f]*' --lr 0 -i 1 --run module
equal "DataParallel's names" "$code $(field weights_hash)" "0 $(train "${base[@]}" --init F32.safetensors --freeze '[!f]*' --lr 0 -i 1 --run plain; field weights_hash)"
train softmax $data -b 20 -i 3 --run source
hash=$(field weights_hash)
train softmax $data -b 20 -i 1 --lr 0 --init "$(latest source)" --run ours
equal 'a checkpoint of ours' "$code $(field weights_hash)" "0 $hash"
train softmax $data -b 20 -i 1 --lr 0 --init source --run ours-2 --resume auto
equal 'a run of ours' "$code $(field weights_hash)" "0 $hash"
rm -rf source
train --resume ours-2 -i 2
equal 'the run is not needed to go on' "$code $(field weights_hash)" "0 $hash"
mkdir -p hollow
train softmax $data -b 20 -i 1 --init hollow --run ours-3
one_line_error 'a folder without a run' 4 'hollow holds no checkpoints'

refused() { # WHAT CODE PART ARGS...
    train "${base[@]}" -i 1 --run refused "${@:4}"
    one_line_error "$1" "$2" "$3"
    [ ! -e refused ] || { bad "$1: a run directory is left"; rm -rf refused; }
}
for bad_value in inf nan -inf; do
    for dtype in F32 F16 BF16; do
        python3 st.py make bad.safetensors $dtype put=$bad_value
        refused "$dtype with $bad_value" 4 "'fc1.bias' holds a value that is not finite" --init bad.safetensors
    done
done
python3 st.py make other.safetensors F32 fc2.weight=1000x8 fc2.bias=1000
refused 'other classes' 4 "'fc2.weight' is f32 1000x8 there, f32 4x8 in net here (and 1 more that do not fit); --init-skip 'fc2.*'" --init other.safetensors
"$lockstep" train "${base[@]}" --init other.safetensors --init-skip 'fc2.*' --freeze '[!f]*' --lr 0 -i 1 --run skip >out 2>err
equal 'the last layer fresh' "$? $(same other.safetensors "$(latest skip)")" "0 ${all% fc2.weight fc2.bias}"
has 'what fitted' err 'init: 13 of 15 tensors of net from other.safetensors'
has 'what stays fresh' err 'init: fresh, by --init-skip: fc2.weight, fc2.bias'
python3 st.py make part.safetensors F32 drop=fc1.bias add=head.weight
"$lockstep" train "${base[@]}" --init part.safetensors -i 1 --run part >out 2>err
has 'what is not there' err 'warning: init: fresh, not in the file: fc1.bias'
has 'what is not used' err 'init: in the file and not used: head.weight'
python3 st.py make foreign.safetensors F32 prefix=encoder.
refused 'nothing fits' 4 "nothing in it fits net: its first tensor is called 'encoder.conv1.weight'" --init foreign.safetensors
refused 'no such file' 4 'nowhere' --init nowhere
head -c 1000 F32.safetensors >torn.safetensors
refused 'a torn file' 4 torn.safetensors --init torn.safetensors
refused 'skip without a file' 2 '--init' --init-skip 'fc2.*'
refused 'skip what is not there' 2 'no parameter' --init F32.safetensors --init-skip 'head.*'
"$lockstep" eval F16.safetensors $data --model ./net.net --json >out 2>err
equal 'eval of a file of another program' "$? $(field images)" '0 4'
"$lockstep" eval F16.safetensors $data >out 2>err
code=$?
one_line_error 'eval without the model' 4 'give --model'

# --- 2. everywhere the same ---
tuned=("${base[@]}" --init BF16.safetensors --freeze 'conv1.*,bn1.*' --lr-of 'fc2.*=0.2' --lr 0.05 --epochs 3)
train "${tuned[@]}" --threads 1 --run tuned
hash=$(field weights_hash)
equal '3 threads' "$(hash_of "${tuned[@]}" --threads 3 --run t3)" "$hash"
train "${tuned[@]}" -w 2 --run w2
if grep -q 'need mpirun\|need MPI' err; then skipped 'two workers: no MPI here'; else equal 'two workers' "$(field weights_hash)" "$hash"; fi
train "${tuned[@]}" -i 3 --run half
mv BF16.safetensors away
"$lockstep" train --resume half --iterations 0 --json -q >out 2>err
equal 'resumed without the file' "$? $(field weights_hash)" "0 $hash"
mv away BF16.safetensors
train "${tuned[@]}" --init F32.safetensors --run half --resume auto
one_line_error 'resumed with another file' 4 'init'
train "${tuned[@]}" --freeze 'conv1.*' --run half --resume auto
one_line_error 'resumed with less frozen' 4 "freeze 'conv1.*,bn1.*'"
equal 'the manifest tells' "$(python3 -c 'import json; o=json.load(open("half/manifest.json"))["options"]; print(o["init"], o["freeze"], o["lr_of"])')" 'BF16.safetensors conv1.*,bn1.* fc2.*=0.2'

# --- 3. frozen ---
train "${base[@]}" --init F32.safetensors --weight-decay 0.1 -i 1 --run free
for way in '' '--memory low' '--sum float --threads 1' '--compress 16' '--device ref' '--optimizer adamw'; do
    # shellcheck disable=SC2086
    train "${base[@]}" --init F32.safetensors --weight-decay 0.1 -i 1 --run free2 $way
    # shellcheck disable=SC2086
    train "${base[@]}" --init F32.safetensors --weight-decay 0.1 -i 1 --freeze 'conv2.*,bn1.*,fc1.bias' --run frozen $way
    if [ "$code" -ne 0 ]; then bad "frozen $way: exit code $code: $(cat err)"; continue; fi
    equal "frozen $way: what stays" "$(same F32.safetensors "$(latest frozen)")" 'bn1.weight bn1.bias bn1.running_mean bn1.running_var conv2.weight conv2.bias fc1.bias'
    equal "frozen $way: what trains, trains as ever" "$(same "$(latest free2)" "$(latest frozen)")" 'conv1.weight bn2.weight bn2.bias bn2.running_mean bn2.running_var fc1.weight fc2.weight fc2.bias'
    rm -rf free2 frozen
done
train "${base[@]}" --freeze '[!f]*' --sync local:2 --epochs 2 --run local
equal 'with --sync local:2' "$code" 0
train "${base[@]}" -i 1 --freeze '*'
one_line_error 'all frozen' 2 'nothing to train'
train "${base[@]}" -i 1 --freeze 'convolution*'
one_line_error 'a pattern without a parameter' 2 'fc2.bias'
train "${base[@]}" -i 1 --freeze 'a,,b'
one_line_error 'a bad list' 2 'patterns'
is_smaller() { python3 -c 'import sys; a, b = (len(open(p, "rb").read()) for p in sys.argv[1:]); print("yes" if a < b else (a, b))' "$1" "$2"; }
train "${base[@]}" --momentum 0.9 -i 1 --run moments
train "${base[@]}" --momentum 0.9 -i 1 --freeze '[!f]*' --run fewer
equal 'no state for what is frozen' "$(is_smaller "$(latest fewer)" "$(latest moments)")" yes
kernels() { "$lockstep" inspect "$(latest "$1")" --json | python3 -c 'import json,sys; print(sum("bwd" in l for l in json.load(sys.stdin)["metadata"]["kernels"].split("\n")))'; }
if [ "$(kernels fewer)" -lt "$(kernels moments)" ]; then ok "backward of frozen layers is not computed: $(kernels fewer) of $(kernels moments) ops"; else bad "backward ops: $(kernels fewer), $(kernels moments)"; fi

# --- 4. rates ---
plain=$(hash_of "${base[@]}" --lr 0.1 --epochs 2 --run r1)
equal 'a factor of 1' "$(hash_of "${base[@]}" --lr 0.1 --lr-of '*=x1' --epochs 2 --run r2)" "$plain"
equal 'the rate itself' "$(hash_of "${base[@]}" --lr 0.1 --lr-of 'fc1.*=0.1' --epochs 2 --run r3)" "$plain"
equal 'twice by name is twice' "$(hash_of "${base[@]}" --lr 0.1 --lr-of '*=x2' --epochs 2 --run r4)" "$(hash_of "${base[@]}" --lr 0.2 --epochs 2 --run r5)"
equal 'a rate for all is that rate' "$(hash_of "${base[@]}" --optimizer adamw --lr 0.01 --lr-of '*=0.02' --epochs 2 --run r6)" "$(hash_of "${base[@]}" --optimizer adamw --lr 0.02 --epochs 2 --run r7)"
train "${base[@]}" --init F32.safetensors --lr 0.1 --lr-of '*=x1,fc2.*=0,conv?.weight=x0' -i 2 --run zero
equal 'the last pattern that matches holds' "$(same F32.safetensors "$(latest zero)")" 'conv1.weight conv2.weight fc2.weight fc2.bias'
for bad_list in 'fc.*' 'fc.*=y' '=0.1' 'fc2.*=-1' 'fc2.*=x' ''; do
    train "${base[@]}" -i 1 --lr-of="$bad_list"
    one_line_error "--lr-of='$bad_list'" 2 'patterns with rates'
done
train "${base[@]}" -i 1 --lr-of 'head*=0.1'
one_line_error 'a rate for nothing' 2 'no parameter'
finish
