#!/usr/bin/env bash
# test: sanitize
# What was trained is used: pictures are classified, evaluation tells of every class, networks are exported.
source "$(dirname "$0")/lib.sh"
export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1

# call ARGS...: leaves out, err, code
call() {
    "$lockstep" "$@" >out 2>err </dev/null
    code=$?
}
# refused WHAT CODE PART ARGS...
refused() {
    local what=$1 expected=$2 part=$3
    shift 3
    call "$@"
    one_line_error "$what" "$expected" "$part"
}
json() { python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "${2:-out}" "$1"; }

cat >net.net <<'NET'
model branches
input any
conv conv1 4 3 pad=1 bias=no
bn bn1
relu
keep x
maxpool 3 stride=1 pad=1
conv a 4 1
keep a
from x
conv b1 4 3 pad=1 groups=2
bn b2
keep b
from x
concat a b
conv c 6 3 stride=2 bias=no
bn cn
keep y
avgpool 3 stride=1 pad=1
add y
relu
dropout 0.3
lrn 3
flatten
linear fc1 8
bn fn
relu
linear fc2 classes
NET

python3 "$here/shapes.py" pictures 30 0 || skip_all "no pictures could be made"
python3 "$here/shapes.py" small 3 12
call train ./net.net folder:pictures --resize 12 -b 15 --epochs 6 --lr 0.05 --run run -q
if [ "$code" -ne 0 ] && grep -q "reads no images" err; then skip_all "this build reads no images"; fi
equal "a network of branches is trained on pictures of all sizes" "$code" 0
checkpoint=$("$lockstep" eval run -q --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["checkpoint"])')

# --- classify ---
call classify run pictures/val --csv answers.csv
equal "a folder is classified" "$code" 0
call eval run -o predictions.csv --top 2
equal "and evaluated" "$code" 0
python3 - >same.txt 2>&1 <<'PY'
import csv
a = list(csv.DictReader(open("answers.csv", newline="")))
p = list(csv.DictReader(open("predictions.csv", newline="")))
assert len(a) == len(p) == 30, (len(a), len(p))
for x, y in zip(a, p):
    assert x["file"] == "pictures/val/" + y["file"], (x["file"], y["file"])
    assert (x["predicted"], x["name"], x["probability"]) == (y["predicted"], y["predicted_name"], y["probability"]), (x, y)
    assert y["label_name"] == y["file"].split("/")[0], y
right = sum(y["label"] == y["predicted"] for y in p)
assert right >= 20, right
print("same")
PY
equal "classify says what eval says of the same files, class for class and digit for digit" "$(cat same.txt)" same
for threads in 1 3; do
    call classify run pictures/val --csv - -t $threads
    same_file "the answers do not depend on the number of threads ($threads)" out answers.csv
    "$lockstep" eval run -o "p$threads.csv" --top 2 -t $threads -q >/dev/null
    same_file "nor do those of eval" "p$threads.csv" predictions.csv
done

file=$(find pictures/val -name '*.png' | LC_ALL=C sort | head -n 1)
call classify run "$file"
has "one picture" out "$file"
equal "one line on stdout" "$(wc -l <out)" 1
equal "and nothing on stderr" "$(cat err)" ""
printf 'no picture' >bad.png
head -c 60 "$file" >cut.png
ln -s nowhere dangling.png
call classify run bad.png "$file" cut.png missing.png dangling.png "$file" "$file" --json --top 3
equal "files that cannot be read do not hold up the others" "$code" 3
equal "each is told" "$(json '[("error" in a) for a in d["answers"]]')" "[True, False, True, True, True, False, False]"
equal "all classes, which add up to one" "$(json 'round(sum(g["probability"] for g in d["answers"][1]["guesses"]), 5)')" 1.0
for bad in bad.png cut.png missing.png dangling.png; do
    equal "stderr names $bad in one line" "$(grep -c "warning: .*$bad" err)" 1
done
has "and counts them" err "4 of 7 pictures could not be read"
mkdir -p empty/deep many/sub
refused "a folder without pictures" 3 "no .png, .jpg or .jpeg" classify run empty
for i in $(seq 300); do ln -s "$PWD/$file" "many/sub/$i.PNG"; done
ln -s .. many/sub/up
call classify run many -q --json
equal "a folder with a link to itself is listed once" "$(json 'd["pictures"]')" 300
call classify run many/sub/*.PNG -q --json
equal "hundreds of names on the command line" "$(json 'len(d["answers"])')" 300

"$lockstep" train softmax digits -i 20 --run grey -q >/dev/null 2>&1
call classify grey "$file" "$file"
equal "a network for small grey images takes any picture" "$code" 0
equal "and says once what becomes of it" "$(grep -c "scaled and cut to the centre, and turned to grey" err)" 1

refused "no such run" 4 "nowhere" classify nowhere "$file"
refused "no picture named" 2 "an argument is missing" classify run
refused "no classes wanted" 2 "expected" classify run "$file" --top 0
refused "two things on stdout" 2 "both write to stdout" classify run "$file" --json --csv -
refused "nowhere to write" 1 "no/such" classify run "$file" --csv no/such/file.csv
refused "a folder to write to" 1 "is a folder" classify run "$file" --csv empty

# --- eval ---
call eval run --per-class --confusion
equal "eval tells of classes" "$code" 0
has "by their names" out 'red, "warm"'
equal "within 80 columns" "$(LC_ALL=C.UTF-8 awk 'length($0) > 80 && !/checkpoint/' out)" ""
call eval run --per-class --confusion --top 2 --json
equal "the matrix has every image" "$(json 'sum(map(sum, d["confusion"])) == d["images"] == 30')" True
equal "its diagonal is the accuracy" "$(json 'abs(sum(r[i] for i, r in enumerate(d["confusion"])) / 30 - d["accuracy"]) < 1e-9')" True
equal "support, recall and precision follow from it" "$(json 'all(c["support"] == sum(d["confusion"][i]) and c["right"] == d["confusion"][i][i] and abs(c["recall"] * c["support"] - c["right"]) < 1e-6 and c["predicted"] == sum(r[i] for r in d["confusion"]) for i, c in enumerate(d["classes"]))')" True
equal "pairs are what is off the diagonal" "$(json 'sum(p["images"] for p in d["confused"]) == 30 - sum(r[i] for i, r in enumerate(d["confusion"]))')" True
equal "the right one is among two at least as often" "$(json 'd["accuracy"] <= d["top_accuracy"] <= 1')" True
call eval run --confusion matrix.svg -q
if [ "$code" -eq 0 ]; then has "the matrix is drawn" matrix.svg "taken for"; else bad "the matrix is not drawn: $(cat err)"; fi
refused "a picture of another kind" 2 "matrix.gif" eval run --confusion=matrix.gif
"$lockstep" train softmax fake:1x8x8:100:500 -i 3 --run hundred -q >/dev/null 2>&1
call eval hundred --confusion -q
has "a hundred classes: what is confused most" out "confused most"
call eval hundred --confusion --json
equal "and all of it as JSON" "$(json 'len(d["confusion"])')" 100

call inspect "$checkpoint"
has "inspect shows the names of the classes" out 'grün, mostly blue, red, "warm"'
equal "they are in the manifest" "$(json 'd["train_data"]["class_names"][0]' run/manifest.json)" grün
call data info folder:pictures --json
equal "data info names and counts them" "$(json 'list(zip(d["test"]["class_names"], d["test"]["class_counts"]))[1]')" "('mostly blue', 10)"

# --- export ---
call export run --onnx net.onnx --safetensors net.safetensors
if [ "$code" -ne 0 ] && grep -q "writes no ONNX" err; then skipped "this build writes no ONNX"; finish; fi
equal "a network is exported" "$code" 0
equal "as the checkpoint has it" "$(python3 "$here/onnx.py" check net.onnx "$checkpoint" 2>&1 | tail -n 1)" "19 operators, 26 tensors as in the checkpoint"
call export run --onnx folded.onnx --fold --pixels bytes
equal "batch norm folded: no such operator is left" "$(python3 "$here/onnx.py" check folded.onnx "$checkpoint" folded 2>&1 | tail -n 1)" "19 operators, 4 tensors as in the checkpoint"
call export run --onnx unit.onnx --pixels unit
picture=$(find small/val -name '*.png' | LC_ALL=C sort | head -n 1)
call classify run "$picture" --top 3 --json
for onnx in net folded unit; do
    equal "$onnx.onnx computes the same" "$(python3 "$here/onnx.py" run $onnx.onnx "$picture" out 2>&1 | tail -n 1 | sed 's/ within.*//')" \
        "the same probabilities"
done
python3 "$here/onnx.py" show net.onnx >shown
has "class names are in the file" shown 'meta class_names = ["grün", "mostly blue", "red, \"warm\""]'
has "mean and deviation too" shown "meta mean = 0.485,0.456,0.406"
has "images of any number" shown "('images', 1, ['batch', 3, 12, 12])"
python3 - "$checkpoint" >tensors 2>&1 <<'PY'
import lib, sys
h, d = lib.read_header("net.safetensors")
c, e = lib.read_header(sys.argv[1])
assert h.pop("__metadata__")["format"] == "pt"
c.pop("__metadata__")
assert set(h) == {n for n in c if not n.startswith("optimizer.")}, set(h) ^ set(c)
for n in h:
    (a, b), (x, y) = h[n]["data_offsets"], c[n]["data_offsets"]
    assert d[a:b] == e[x:y] and h[n]["shape"] == c[n]["shape"], n
print("same", "bn1.num_batches_tracked" in h)
PY
equal "safetensors: parameters and buffers alone, byte for byte" "$(cat tensors)" "same True"

# Every op has its line in the table of what ONNX says; tests/torch/onnx computes these networks by onnxruntime.
for net in "$here"/../torch/onnx_nets/*.net; do
    name=$(basename "$net" .net)
    call train "$net" fake:3x20x24:10:16 -b 16 -i 1 --no-eval --run "run-$name" -q
    call export "run-$name" --onnx "$name.onnx" --fold --json
    equal "$name: exported, every name made before it is read" \
        "$(python3 "$here/onnx.py" check "$name.onnx" "$(field checkpoint)" 2>&1 | tail -n 1 | sed 's/^[0-9]*/N/; s/[0-9]* tensors/N tensors/')" \
        "N operators, N tensors as in the checkpoint"
done

before=$(sha256sum <net.onnx)
refused "a file that is there" 2 "--force replaces it" export run --onnx net.onnx
equal "stays" "$(sha256sum <net.onnx)" "$before"
call export grey --onnx net.onnx --force
differs "--force replaces it" "$(sha256sum <net.onnx)" "$before"
refused "nothing to write" 2 "--onnx FILE or --safetensors FILE" export run
refused "one file for both" 2 "the same file" export run --onnx x --safetensors x
refused "--fold without --onnx" 2 "--fold is for --onnx" export run --safetensors x --fold
refused "a folder" 2 "is a folder" export run --onnx empty
refused "no such folder" 1 "no/such" export run --onnx no/such/net.onnx
refused "no such run" 4 "nowhere" export nowhere --onnx x.onnx
printf 'garbage' >garbage.safetensors
refused "no checkpoint" 4 "garbage" export garbage.safetensors --onnx x.onnx
refused "tensors alone do not say which model they are" 4 "does not say" export net.safetensors --onnx x.onnx
(ulimit -f 1; "$lockstep" export grey --onnx full.onnx >out 2>err; echo $? >code)
code=$(cat code)
one_line_error "a full disk" 1 "full.onnx"
equal "leaves nothing behind" "$(find . -name "*full*")" ""
finish
