#!/usr/bin/env bash
# repeat.sh LOCKSTEP: --repeat N: every seed is the run it would be alone; mean and spread; failed and stopped repetitions; going on.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
data=fake:1x8x8:4:200
net=(softmax "$data" -b 16 --epochs 2 --validation 0.2)
train "${net[@]}" --repeat 3 --seed 5 --run all
equal 'exit code, finished' "$code $(field finished)" '0 3'
for seed in 5 6 7; do
    equal "seed $seed is the run alone" "$(field weights_hash all/seed-$seed/result.json)" "$(hash_of "${net[@]}" --seed $seed --run alone-$seed)"
done
equal 'mean and spread' "$(python3 - <<'END'
import json, math, statistics
r = json.load(open("all/repeat.json"))
for key in ("test_accuracy", "best_test_accuracy", "train_seconds"):
    x = [json.load(open("all/seed-%d/result.json" % s))[key] for s in (5, 6, 7)]
    want = {"n": 3, "mean": statistics.mean(x), "deviation": statistics.stdev(x), "min": min(x), "max": max(x)}
    for name, value in want.items():
        if not math.isclose(r[key][name], value, rel_tol=1e-6, abs_tol=1e-9): print(key, name, r[key][name], value)
END
)" ''
"$lockstep" train "${net[@]}" --repeat 3 --seed 5 --run again >out 2>err
has 'the table' out 'test accuracy, best weights'
has 'one line for each' out 'seed 7      finished'

# --- going on: finished ones are kept, a missing one is made ---
before=$(stat -c %Y%i all/seed-5/result.json)
rm -rf all/seed-6
"$lockstep" train "${net[@]}" --repeat 4 --seed 5 --run all --resume auto >out 2>err
equal 'gone on: exit code' $? 0
equal 'kept, not trained again' "$(stat -c %Y%i all/seed-5/result.json) $(grep -c 'finished before, kept' err)" "$before 2"
equal 'the missing one is as before' "$(field weights_hash all/seed-6/result.json)" "$(field weights_hash alone-6/result.json)"
equal 'and one more' "$(field finished all/repeat.json)" 4
train "${net[@]}" --repeat 2 --seed 5 --run all --resume auto --epochs 3
equal 'more epochs go on' "$code $(field epochs all/seed-5/result.json)" '0 3'

# --- failed and stopped ---
train softmax $data -b 16 --epochs 2 --lr 1e6 --repeat 2 --run diverged
equal 'all fail: the exit code is theirs' "$code $(field finished)" '5 0'
"$lockstep" train lenet5 fake:1x28x28:10:2000 -b 16 --epochs 400 --repeat 3 --run 'to stop' >out.bg 2>err.bg </dev/null &
pid=$!
pids+=("$pid")
eventually has_lines 'to stop/seed-1/metrics.jsonl' 1
kill -TERM $pid
wait $pid
equal 'stopped: exit code' $? 75
equal 'no other is begun' "$(ls 'to stop')" "repeat.json
seed-1"
equal 'what is told' "$(python3 -c 'import json; print(*(x["outcome"] for x in json.load(open("to stop/repeat.json"))["repetitions"]), sep=", ")')" 'stopped, not begun, not begun'
line=$(sed -n 's/^  \(lockstep train .*\)/\1/p' out.bg)
mkdir bin && ln -s "$lockstep" bin/lockstep
PATH=$work/bin:$PATH bash -c "$line --iterations 60 --json -q" >out 2>err
equal 'the way on, pasted' "$? $(field finished)" '0 3'

# --- refused ---
train "${net[@]}" --repeat 2 --resume all
one_line_error 'resume a run' 2 '--resume auto'
train softmax nothing --repeat 2 --run none
equal 'what all would be refused for' "$code $([ -e none ] && ls none)" '2 '
# What is not ours stays as it is: nothing is trained into it. What --repeat left is ours, with nothing else in it.
strange() { # WHAT: a folder that somebody else has filled
    rm -rf strange
    mkdir strange
    case $1 in
        file) echo precious >strange/notes.txt ;;
        name) echo '{"repeat": "daily", "repetitions": 3}' >strange/repeat.json ;;
        text) echo precious >strange/repeat.json ;;
        run) cp -r alone-5/. strange ;;
        link) ln -s "$work/alone-5" strange/seed-5 ;;
        'link to ours') ln -s "$work/again/repeat.json" strange/repeat.json ;;
        fifo) mkfifo strange/repeat.json ;;
        seed) mkdir strange/seed-five ;;
        more) cp -r again/. strange && echo precious >strange/notes.txt ;;
    esac
}
for what in file name text run link 'link to ours' fifo seed more; do
    for how in '' '--resume auto'; do
        strange "$what"
        find strange alone-5 -printf '%p %y %s %T@ %l\n' | sort >before
        # shellcheck disable=SC2086 # two words
        train "${net[@]}" --repeat 2 --seed 5 --run strange $how
        find strange alone-5 -printf '%p %y %s %T@ %l\n' | sort >after
        one_line_error "not ours: $what $how" 4 'choose another --run'
        same_file "not ours: $what $how: as it was" before after
    done
done
before=$(stat -c %Y%i again/repeat.json)
train "${net[@]}" --repeat 2 --seed 7 --run again
one_line_error 'the same seeds again' 4 'a run with seed 7'
equal 'what came of them is kept' "$(stat -c %Y%i again/repeat.json)" "$before"
mkdir empty
train "${net[@]}" --repeat 2 --epochs 1 --run empty
equal 'an empty folder is taken' "$code $(field finished)" '0 2'
train "${net[@]}" --repeat 2 --epochs 1 --seed 3 --run empty
equal 'other seeds join' "$code $(cd empty && echo *)" '0 repeat.json seed-1 seed-2 seed-3 seed-4'
train "${net[@]}" --repeat 0
one_line_error 'none' 2 'from 1'
finish
