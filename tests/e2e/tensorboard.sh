#!/usr/bin/env bash
# test: sanitize
# tensorboard.sh LOCKSTEP: the event file of a run: every record's checksums, and that it holds what metrics.jsonl holds.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
"$lockstep" doctor | grep -q 'TensorBoard and ONNX files: there' || skip_all 'built without protobuf-c'
"$lockstep" train lenet5 digits -i 120 -b 64 --log-every 20 --run a -q >/dev/null 2>err
equal 'a training' $? 0
python3 "$here/tfevents.py" a/events.out.tfevents.* >events 2>err || bad "the file: $(cat err)"
python3 - <<'END' >wrong
import json, struct
seen = {}
for line in open("events"):
    word = line.split(" ", 3)
    if len(word) == 4 and word[2] == "scalar":
        seen[int(word[0]), word[1]] = float(word[3])
tags = {"loss": "Loss/%s", "accuracy": "Accuracy/%s", "lr": "LearningRate", "images_per_second": "Throughput/images_per_sec"}
for line in open("a/metrics.jsonl"):
    m = json.loads(line)
    for name, tag in tags.items():
        if "%s" not in tag and m["split"] != "train":
            continue
        want = struct.unpack("<f", struct.pack("<f", m[name]))[0]
        got = seen.pop((m["step"], tag % m["split"] if "%s" in tag else tag), None)
        if got is None or abs(got - want) > 1e-6 * abs(want):
            print(m["step"], tag, want, got)
print(*(key for key in seen if not key[1].startswith("Time/")), end="")
END
equal 'every metric is a scalar, and nothing else is' "$(cat wrong)" ''
has 'the network' events 'graph input:Input conv1/weight:Parameter'
has 'its layers by name' events ' conv2:conv2d'
has 'the options as text' events '0 options text | option | value |'
has 'and to compare runs by' events '_hparams_/session_start_info hparams'
has 'that it ended' events '_hparams_/session_end_info hparams'
has 'examples of the images' events "image 1x28x28 b'\\x89PNG'"
"$lockstep" train lenet5 digits -i 160 -b 64 --log-every 20 --run a --resume auto -q >/dev/null 2>err
python3 "$here/tfevents.py" "$(find a -name 'events*' | sort | tail -n 1)" >events 2>err || bad "the second file: $(cat err)"
has 'a resumed run makes what follows its checkpoint void' events '121 start'
"$lockstep" train mlp fake:1x28x28:10:640 -b 64 --epochs 4 --run plain -q >/dev/null 2>err
"$lockstep" train mlp fake:1x28x28:10:640 -b 64 --epochs 4 --histograms 2 --run c -q >/dev/null 2>err
equal 'with histograms the weights are the same' "$(field weights_hash c/result.json)" "$(field weights_hash plain/result.json)"
python3 "$here/tfevents.py" c/events.out.tfevents.* >events 2>err || bad "the file of histograms: $(cat err)"
equal 'histograms of every second epoch' "$(awk '$3 == "histogram" && /fc1.weight/ {print $1, $2}' events | xargs)" \
    "20 Gradients/fc1.weight 20 Weights/fc1.weight 40 Gradients/fc1.weight 40 Weights/fc1.weight"
equal 'of as many gradients as weights' "$(awk '$3 == "histogram" && $1 == 40 {sub(".*/", "", $2); print $2, $4}' events | sort | uniq -c | awk '$1 != 2')" ''
"$lockstep" train lenet5 digits -i 5 --run b --no-record -q >/dev/null 2>err
equal 'none with --no-record' "$(find b -name 'events*')" ''
finish
