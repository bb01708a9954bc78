#!/usr/bin/env bash
# validation.sh LOCKSTEP: an honest best: --validation, --patience, --target.
#
# 1. Held out by seed: the same weights, metrics and best for any number of threads and workers, and after a resume.
# 2. The best is chosen by validation data, the test data measured once; without validation data there is no best.
# 3. Early stopping and the target, also after a resume. 4. The run's identity. 5. A folder.
# test: sanitize
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
data=fake:1x8x8:4:200
base=(softmax "$data" -b 16 --epochs 6 --lr 0.3 -p 5 --validation 0.25)
splits() { python3 -c 'import json,sys,collections; print(dict(sorted(collections.Counter(json.loads(l)["split"] for l in open(sys.argv[1]+"/metrics.jsonl")).items())))' "$1"; }
best_of() { python3 - "$1" <<'END'
import json, sys
r = json.load(open(sys.argv[1] + "/result.json"))
print(*(r[k] for k in ("best_epoch", "best_step", "best_validation_loss", "best_validation_accuracy", "best_test_loss", "best_test_accuracy", "test_accuracy", "stopped_by")))
END
}
# the best epoch as metrics.jsonl has it: the highest accuracy, of equal ones the lowest loss, of equal ones the first
best_by_metrics() { python3 - "$1" <<'END'
import json, sys
lines = [l for l in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if l["split"] == "validation"]
print(max(lines, key=lambda l: (l["accuracy"], -l["loss"], -l["epoch"]))["epoch"])
END
}

# --- 1. the same everywhere ---
train "${base[@]}" --threads 1 --run one
equal 'with validation: exit code, steps of the 150 that are left' "$code $(field steps) $(field validation_images)" '0 60 50'
for threads in 2 3; do
    train "${base[@]}" --threads $threads --run t$threads
    equal "$threads threads: weights" "$(field weights_hash)" "$(field weights_hash one/result.json)"
    equal "$threads threads: best" "$(best_of t$threads)" "$(best_of one)"
done
metrics_of one >a
metrics_of t3 >b
same_file '3 threads: metrics' a b
train "${base[@]}" -w 2 --run w2
if grep -q 'need mpirun\|need MPI' err; then skipped 'two workers: no MPI here'
else
    equal 'two workers: weights, best' "$(field weights_hash w2/result.json) $(best_of w2)" "$(field weights_hash one/result.json) $(best_of one)"
    metrics_of w2 >b
    same_file 'two workers: metrics' a b
fi
train "${base[@]}" --seed 2 --run seed2
differs 'another seed holds out others' "$(field validation_data seed2/manifest.json)" "$(field validation_data one/manifest.json)"
train softmax $data -b 16 --epochs 6 --lr 0.3 -p 5 --validation 50 --run fifty
equal '0.25 of 200 is 50' "$(field weights_hash fifty/result.json)" "$(field weights_hash one/result.json)"

# --- 2. best ---
equal 'one test line' "$(splits one)" "{'epoch': 6, 'test': 1, 'train': 12, 'validation': 6}"
equal 'the best epoch is that of metrics.jsonl' "$(field best_epoch one/result.json)" "$(best_by_metrics one)"
"$lockstep" eval one --json >out 2>err
equal 'eval takes the best, and finds what the run found' "$(field accuracy) $(field step)" "$(field best_test_accuracy one/result.json) $(field best_step one/result.json)"
"$lockstep" eval one/checkpoints/latest.safetensors --json >out 2>err
equal 'the last, too' "$(field accuracy)" "$(field test_accuracy one/result.json)"
train softmax $data -b 16 --epochs 3 --run plain
equal 'without validation there is no best' "$code $(field best_epoch) $(find plain/checkpoints -name "*best*" | wc -l)" '0 None 0'
equal 'and every epoch is tested' "$(splits plain)" "{'epoch': 3, 'test': 3}"
"$lockstep" eval plain --json >out 2>err
equal 'eval takes the newest' "$(field step)" 39
"$lockstep" eval plain/checkpoints/best.safetensors >out 2>err
code=$?
one_line_error 'asking for the best' 4 '--validation'
train "${base[@]}" --no-eval --run notest
equal 'never the test data' "$code $(splits notest) $(field best_test_accuracy) $(field test_accuracy)" "0 {'epoch': 6, 'train': 12, 'validation': 6} None None"
equal 'the best is the same' "$(field best_step)" "$(field best_step one/result.json)"

# --- resume ---
same_end() { # WHAT RUN EXPECTED
    equal "$1: weights, best" "$(field weights_hash "$2/result.json") $(best_of "$2")" "$(field weights_hash "$3/result.json") $(best_of "$3")"
    metrics_of "$2" >a
    metrics_of "$3" >b
    same_file "$1: metrics" a b
}
for i in 10 23 60; do
    rm -rf half
    train "${base[@]}" -i $i --run half
    train "${base[@]}" --run half --resume auto
    if [ $i = 23 ]; then # stopped within an epoch it measured there, too
        equal "after $i steps: weights" "$(field weights_hash half/result.json)" "$(field weights_hash one/result.json)"
    else same_end "after $i steps" half one
    fi
done

# --- 3. enough ---
train "${base[@]}" --epochs 40 --patience 2 --run patient
equal 'patience: exit code, why' "$code $(field stopped_by)" '0 patience'
equal 'patience: two epochs after the best' "$(field epochs)" "$(($(field best_epoch) + 2))"
cp -r patient again
train "${base[@]}" --epochs 40 --patience 2 --run again --resume auto
same_end 'resumed after patience ended: nothing more' again patient
steps=$(field steps patient/result.json)
rm -rf half
train "${base[@]}" --epochs 40 --patience 2 -i $((steps - 10)) --run half
train "${base[@]}" --epochs 40 --patience 2 --run half --resume auto
same_end 'stopped while it was patient' half patient
train "${base[@]}" --epochs 40 --patience 4 --run again --resume auto
if [ "$(field epochs)" -ge "$(($(field epochs patient/result.json) + 2))" ]; then ok 'more patience goes on'; else bad "more patience: $(field epochs)"; fi
reached=$(python3 -c 'import json; print([l["accuracy"] for l in map(json.loads, open("one/metrics.jsonl")) if l["split"] == "validation"][1])')
train "${base[@]}" --target "$reached" --run target
epoch=$(field target_epoch)
equal 'target: exit code, why, epochs' "$code $(field stopped_by) $(field epochs)" "0 target $epoch"
if python3 -c 'import json; r=json.load(open("target/result.json")); assert 0 < r["target_train_seconds"] <= r["target_total_seconds"] <= r["total_seconds"], r'; then ok 'target: seconds'; else bad 'target: seconds'; fi
"$lockstep" train "${base[@]}" --target "$reached" --run target --resume auto >out 2>err
has 'resumed after the target: nothing more, the same seconds' out "reached in epoch $epoch: $(python3 -c 'import json; r=json.load(open("target/result.json")); print("%.2f s of training, %.2f s" % (r["target_train_seconds"], r["target_total_seconds"]))')"
"$lockstep" train softmax $data -b 16 --epochs 2 --target 0.01 --run ontest >out 2>err
has 'target on the test data: a word' err 'stops by the test data'
train softmax $data --patience 2
one_line_error 'patience without validation' 2 '--validation'
train softmax $data --target 0.5 --no-eval
one_line_error 'a target without data' 2 '--target'
train softmax $data --target 95
one_line_error 'a target in percent' 2 'from 0 to 1'
for value in 0 1.0 0.0 1.5 -3 ''; do
    train softmax $data --validation="$value"
    one_line_error "--validation=$value" 2 'a share such as 0.1'
done
train softmax $data --validation 200
one_line_error 'all of it' 2 '1 to 199'
train softmax $data --validation nowhere
one_line_error 'no such folder' 2 'channels'

# --- 4. identity ---
train "${base[@]}" --validation 0.1 --run one --resume auto
one_line_error 'resume with another validation' 4 "validation '50 of 200 images', this run has '20 of 200 images'"
train softmax $data -b 16 --epochs 6 --lr 0.3 -p 5 --run one --resume auto
one_line_error 'resume without it' 4 'made with --validation'
train softmax $data -b 16 --epochs 3 --validation 0.25 --run plain --resume auto
one_line_error 'resume with one that was not' 4 'without --validation'

# --- 5. a folder ---
python3 "$here/pictures.py" pics 40 10
cp -r pics/test val
python3 - <<'END'
import os
for name in os.listdir("val/a"): os.rename("val/a/" + name, "val/a/v" + name)
END
train softmax folder:pics --resize 12 -b 8 --epochs 2 --validation val --run folder
if grep -q 'reads no images' err; then skipped 'a folder: this build reads no images'
else
    equal 'a folder: exit code, images' "$code $(field validation_images) $(field images)" '0 10 80'
    "$lockstep" train softmax folder:pics --resize 12 -b 8 --epochs 2 --validation pics/test --run same >out 2>err
    code=$?
    one_line_error 'the test data as validation data' 2 'holds the test data'
    mkdir -p odd/a odd/c && cp val/a/* odd/a && cp val/a/* odd/c
    train softmax folder:pics --resize 12 --validation odd
    one_line_error 'another class' 3 'odd/c'
fi
finish
