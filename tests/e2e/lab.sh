#!/usr/bin/env bash
# lab.sh LOCKSTEP: labs and sweeps as a person uses them: list, plan, run, fail, stop and go on, scale; mistakes in lab files.
# test: sanitize cost=60
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
unset LOCKSTEP_DATA
lab() { "$lockstep" lab "$@" >out 2>err </dev/null; code=$?; }
states() { python3 -c 'import json,sys; print(*(j["state"] for j in json.load(open(sys.argv[1] + "/state.json"))["jobs"]))' "$1"; }
hashes() { for one in "$1"/runs/*/result.json; do field weights_hash "$one"; done | tr '\n' ' '; }

# --- the labs of the program ---
lab list
for name in alexnet-vgg svhn mnist gpu allreduce-vs-ps; do has "list: $name" out "$name"; done
lab list --json
equal 'list as JSON' "$(python3 -c 'import json; print(len(json.load(open("out"))))')" 5

# --- a lab of our own, one run of which fails ---
data=fake:1x8x8:4:200
cat >own.lab <<END
title   Rates
source  Somebody's
base    model=softmax data=$data batch-size=16 epochs=2
repeat  2
question Q1: What does the rate do?
  run   rate
  vary  lr 0.01 0.1
  show  time accuracy
  published time rate-0.1=12
question Q2: And a rate that is far too large?
  use   rate-0.01
  run   wild lr=100000 epochs=30
END
lab show own.lab
equal 'show: exit code' $code 0
has 'show: a run' out 'rate-0.1'
has 'show: in all' out 'in all: 6 trainings, predicted to take'
lab show own.lab --json
equal 'show: commands' "$(python3 -c 'import json; print(json.load(open("out"))["jobs"][1]["command"])')" \
    "lockstep train softmax $data --batch-size 16 --epochs 2 --lr 0.1"
cat >wire.lab <<'END'
title Wires
base  model=softmax data=digits iterations=100
question Q1: What does a slow wire cost?
  run   alone
  run   wire nodes=3 network=10mbit,5ms
END
lab show wire.lab --json
# sums of 7,850 numbers of 8 bytes, four thirds of them, at 10 Mbit/s, and four ways of 5 ms: 0.09 s a step
equal 'show: the network is counted' "$(python3 -c 'import json; a, b = json.load(open("out"))["jobs"]; print(8 < b["predicted_seconds"] - a["predicted_seconds"] < 14)')" True
lab run own.lab --run own
equal 'run: one fails, the others are done' "$code $(states own)" '1 done done failed done done failed'
has 'run: progress' err 'run 2 of 6: rate-0.1, repeat 1 of 2; time left: '
has 'run: the failure is told' err 'run wild failed (exit code 5)'
has 'run: and kept' own/state.json 'try a lower --lr'
same_file 'lab.txt is the file' own.lab own/lab.txt
equal 'a run is the training alone' "$(field weights_hash own/runs/rate-0.1-r1/result.json)" "$(hash_of softmax $data -b 16 --epochs 2 --lr 0.1 --run alone)"
equal 'repeats have the same seed' "$(field weights_hash own/runs/rate-0.1-r2/result.json)" "$(field weights_hash alone/result.json)"
before=$(stat -c %Y%i own/runs/rate-0.1-r1/result.json)
lab run own
equal 'again: what is done is kept' "$code $(stat -c %Y%i own/runs/rate-0.1-r1/result.json)" "1 $before"
lab run own.lab --run own --scale 1/2
one_line_error 'another scale in the same folder' 2 'was begun with --scale 1, not 1/2'
sed 's/0.1$/0.2/' own.lab | sed 's/rate-0.1=/rate-0.2=/' >other.lab
lab run other.lab --run own
one_line_error 'another lab in the same folder' 4 'holds another lab'
lab run own.lab --run own --only Q1
equal 'fewer questions: nothing is lost' "$(states own)" 'done done failed done done failed'
lab run own.lab --only Q1 --run part
equal 'only Q1' "$code $(states part)" '0 done done done done'
lab run own.lab --only Q9 --run none
one_line_error 'a question that is not there' 2 'has no question Q9'
lab run own.lab --repeat 1 --only Q1 --run once
equal 'repeat 1' "$code $(states once)" '0 done done'
mkdir full && touch full/file
lab run own.lab --run full
one_line_error "somebody else's folder" 4 'is no lab'
lab report full
one_line_error 'report of no lab' 4 "is no lab's folder"

# --- scale ---
lab show own.lab --scale 1/2 --json
has 'half of two epochs' out '--epochs 1'
cat >long.lab <<END
title   Long
base    model=softmax data=fake:1x8x8:4:6400 batch-size=64 epochs=1 lr=0.1
question Q1: ?
  run   a
  run   b iterations=320 checkpoint-every=32
END
lab show long.lab --scale 1/10 --json
has 'a tenth of an epoch of 100 steps' out '--lr 0.1 --iterations 10 '
has 'a tenth of 320 steps, and of 32' out '--iterations 32 --checkpoint-every 3 '
lab show long.lab --scale 1/64 --json
has 'below a sixteenth batches are smaller, too' out '--batch-size 16 --epochs 1 --lr 0.025 '
has 'what it changed' out '"scaled": "iterations 6 instead of whole epochs, batch-size 16 instead of 64, lr 0.025 instead of 0.1'
lab show long.lab --scale 1/64
has 'what it changed, in the plan' out 'scaled: a: iterations 6 instead of whole epochs, batch-size 16 instead of 64, lr 0.025 instead of 0.1'
has 'and a warning' err 'warning: --scale 1/64 makes batches smaller'
cat >varied.lab <<END
title   Varied
base    model=softmax data=fake:1x8x8:4:6400 batch-size=64 epochs=2 lr=0.1
question Q1: What do checkpoints cost?
  run   ckpt
  vary  checkpoint-every 10 50
question Q2: Batches and rates
  run   batch
  vary  batch-size 32 128
  run   rate
  vary  lr 0.1 0.2
  run   fixed iterations=100
question Q3: More epochs
  run   epochs data=fake:1x8x8:4:640
  vary  epochs 3 9
END
lab show varied.lab --scale 1/64 --json
varied() { python3 -c 'import json,sys; print(*(next(j for j in json.load(open("out"))["jobs"] if j["run"] == sys.argv[1])["command"].split()[4:]))' "$1"; }
equal 'a varied interval stays' "$(varied ckpt-10)" '--batch-size 64 --epochs 2 --lr 0.1 --checkpoint-every 10'
equal 'a varied batch and rate stay' "$(varied rate-0.2)" '--batch-size 64 --epochs 2 --lr 0.2'
equal 'what is not varied is scaled' "$(varied fixed)" '--batch-size 64 --lr 0.1 --iterations 3 --log-every 1'
equal 'varied epochs stay' "$(varied epochs-9)" '--batch-size 64 --epochs 9 --lr 0.1'
sed -i '/^question Q3/,$d; s/^  vary  checkpoint-every.*/  vary  checkpoint-every 10 epoch/' varied.lab
lab show varied.lab --scale 1/64 --json
has 'without them trainings are short' out '--batch-size 64 --epochs 1 --lr 0.2 --iterations 3'
has 'but not their intervals' out '--checkpoint-every 10'
for scale in 2 0 1/0 x 1/; do
    lab show long.lab --scale $scale
    one_line_error "scale $scale" 2 'expected a part such as 1/16'
done

# --- stopped at random moments, killed too: it goes on to the same report ---
cat >stop.lab <<END
title   Stopped
base    model=lenet5 data=fake:1x28x28:4:1280 batch-size=64 epochs=2 log-every=1 threads=1
repeat  2
question Q1: Does it go on?
  run   a
  vary  lr 0.01 0.02
  run   none lr=0.03 checkpoint-every=none
  show  accuracy hash curves time resources
END
lab run stop.lab --run whole
equal 'unbroken' "$code $(states whole)" '0 done done done done done done'
# Three of all lines that the six trainings write into metrics.jsonl, but for the last ones of all, and a signal for each.
seed=${LOCKSTEP_TEST_SEED:-$RANDOM}
note "LOCKSTEP_TEST_SEED=$seed"
points=$(python3 - "$seed" whole/runs/{a-0.01,a-0.02,none}-r{1,2} <<'END'
import random, sys
chance = random.Random(int(sys.argv[1]))
runs = sorted(sys.argv[2:], key=lambda name: name[-1]) # in the order in which they are trained
places = [(run, n + 1) for run in runs for n in range(len(open(run + "/metrics.jsonl").readlines()))][:-15]
for i in sorted(chance.sample(range(len(places)), 3)):
    print(places[i][0].removeprefix("whole/"), places[i][1], chance.choice(["TERM", "KILL"]))
END
)
equal 'three points to stop at' "$(wc -l <<<"$points")" 3
begin() { rm -f err.bg; "$lockstep" lab run "$@" >out.bg 2>err.bg </dev/null & pid=$!; pids+=("$pid"); }
is_at() { has_lines "broken/$1/metrics.jsonl" "$2" && grep -qs '^run ' err.bg; } # and what goes on has begun
what='stop.lab --run broken'
while read -r run lines signal; do
    # shellcheck disable=SC2086 # words
    begin $what
    what=broken
    eventually is_at "$run" "$lines"
    kill -"$signal" $pid
    wait $pid 2>/dev/null
    equal "$signal at $run, line $lines: exit code" $? "$([ "$signal" = TERM ] && echo 75 || echo 137)"
    if [ "$signal" = TERM ]; then has 'stopped: what to do' out.bg 'lockstep lab run broken'; fi
done <<<"$points"
flock broken/lock "$lockstep" lab run broken >out 2>err </dev/null
code=$?
one_line_error 'while another runs it' 4 'another process runs this lab'
lab run broken
equal 'gone on: all done' "$code $(states broken)" '0 done done done done done done'
equal 'the same weights' "$(hashes broken)" "$(hashes whole)"
has 'what was interrupted is told' broken/report.md 'Interrupted or failed and gone on with, and how often started: '
equal 'the same report, apart from times' "$(python3 "$here/lab_same.py" whole/report.md broken/report.md)" ''
sed 's/^\(| a-0.01 | [0-9]*\)[.]\([0-9]\)/\1.9\2/' broken/report.md >other.md
differs 'an accuracy that is another would be found' "$(python3 "$here/lab_same.py" whole/report.md other.md)" nothing
lab run broken --scale 1/2
one_line_error 'going on with other options' 2 'goes on as it was begun: leave --scale out'

# --- a sweep is a lab ---
"$lockstep" sweep train softmax $data -b 16 --epochs 1 --vary lr=0.01,0.1 --vary seed=1,2 --repeat 2 --run sweep >out 2>err </dev/null
equal 'sweep: all combinations, twice' "$? $(states sweep)" '0 done done done done done done done done'
has 'sweep: its lab file' sweep/lab.txt '  vary   lr 0.01 0.1'
lab show sweep/lab.txt
equal 'sweep: it is one' $code 0
sweep() { "$lockstep" sweep "$@" >out 2>err </dev/null; code=$?; }
sweep train softmax $data
one_line_error 'sweep: nothing varies' 2 'what varies?'
sweep train softmax $data --vary lr=0.1,
one_line_error 'sweep: an empty value' 2 'a value is empty'
sweep train softmax $data --vary bach-size=1,2
one_line_error 'sweep: an unknown option' 2 'unknown setting bach-size; did you mean batch-size?'
sweep train softmax $data --vary lr
one_line_error 'sweep: no values' 2 'expected an option of train and its values'
sweep train softmax $data --vary lr=0.1,0.2 --lr 0.3
one_line_error 'sweep: varied and given' 2 '--vary lr, but --lr 0.3 is given too'
sweep train softmax $data --vary model=mlp,lenet5
one_line_error 'sweep: another model than those that vary' 2 '--vary model=mlp,lenet5 does not have softmax'
sweep train softmax $data -b 16 --epochs 1 --vary model=softmax,mlp --run models
equal 'sweep: of models' "$code $(states models)" '0 done done'
has 'sweep: of models, their names' models/state.json 'runs/model-mlp-r1'
sweep eval softmax $data --vary lr=1,2
one_line_error 'sweep: of another command' 2 'only trainings are swept'

# --- mistakes: refused before anything runs, with line and what to write ---
wrong() { # WHAT LINE MESSAGE, the lines from the base on in stdin
    { echo 'title T'; cat; } >wrong.lab
    lab run wrong.lab --run wrong
    one_line_error "$1" 2 "wrong.lab:$2: "
    has "$1: what to do" err "$3"
    [ ! -e wrong ] || bad "$1: something was made"
}
wrong 'unknown model' 2 'did you mean lenet5?' <<<"base model=lenet55 data=digits
question Q1: ?
run a"
wrong 'unknown data' 2 'did you mean digits?' <<<"base model=lenet5 data=digit
question Q1: ?
run a"
wrong 'empty variation' 5 'vary lr has no values: write them behind it, as vary lr 0.01 0.02 0.05' <<<"base model=lenet5 data=digits
question Q1: ?
run a
vary lr"
wrong 'empty variation of words' 5 'as vary optimizer sgd adamw' <<<"base model=lenet5 data=digits
question Q1: ?
run a
vary optimizer"
wrong 'a slow node that is not there' 4 'slow=5:3 holds back node 5, but there are 2: give 1:3 to 2:3' <<<"base model=lenet5 data=digits nodes=2
question Q1: ?
run a slow=5:3"
wrong 'a slow node of one' 3 'slow=2:3 holds back node 2, but there is one alone: give nodes=2, too, or 1:3' <<<"base model=lenet5 data=digits
base slow=2:3
question Q1: ?
run a"
wrong 'accuracy that is not measured' 5 'all runs of question Q1 have no-eval=on: take the word away, or write no-eval=off' <<<"base model=lenet5 data=digits no-eval=on
question Q1: ?
run a
show time accuracy"
wrong 'epochs beside iterations' 4 'epochs=2 and iterations=9: a training is so many epochs or so many iterations long: write one' <<<"base model=lenet5 data=digits
question Q1: ?
run a epochs=2 iterations=9"
wrong 'epochs beside varied iterations' 5 'epochs=2 and iterations: a training is' <<<"base model=lenet5 data=digits
question Q1: ?
run a epochs=2
vary iterations 9 10"
wrong 'a network without nodes' 4 'network joins the machines of nodes: say how many, as nodes=3 network=1gbit,0.1ms' <<<"base model=lenet5 data=digits
question Q1: ?
run a network=1gbit,0.1ms"
wrong 'servers of another sync' 4 'servers=3 is for sync=ps, not allreduce' <<<"base model=lenet5 data=digits
question Q1: ?
run a servers=3"
wrong 'a list in one word' 5 'vary momentum 0,0.9: values are separated by blanks: write vary momentum 0 0.9' <<<"base model=lenet5 data=digits
question Q1: ?
run a
vary momentum 0,0.9"
wrong 'a list on the line of the run' 4 'a line of its own below the run, values separated by blanks: vary lr 0.1 0.2' <<<"base model=lenet5 data=digits
question Q1: ?
run a lr=0.1,0.2"
wrong 'a flag without a value' 4 'flip has no value: write flip=on' <<<"base model=lenet5 data=digits
question Q1: ?
run a flip"
wrong 'a flag that is neither on nor off' 4 'flip=1: expected on or off: write flip=on' <<<"base model=lenet5 data=digits
question Q1: ?
run a flip=1"
wrong 'a flag that varies without values' 5 'as vary flip on off' <<<"base model=lenet5 data=digits
question Q1: ?
run a
vary flip"
wrong 'a setting without a value' 4 'lr has no value: write lr=0.05' <<<"base model=lenet5 data=digits
question Q1: ?
run a lr"
wrong 'a misspelt flag without a value' 4 'unknown setting flp; did you mean flip?' <<<"base model=lenet5 data=digits
question Q1: ?
run a flp"
several='made 4 runs of mw: mw-0-0, mw-0-0.1, mw-0.9-0, mw-0.9-0.1; name one of them, as'
wrong 'a baseline that is several runs' 7 "$several baseline mw-0-0" <<<"base model=lenet5 data=digits
question Q1: ?
run mw
vary momentum 0 0.9
vary weight-decay 0 0.1
baseline mw"
wrong 'a published figure of several runs' 9 "$several published time mw-0-0" <<<"source S
base model=lenet5 data=digits
question Q1: ?
run mw
vary momentum 0 0.9
vary weight-decay 0 0.1
show time
published time mw=3"
wrong 'a baseline of another question' 7 'not of this question: write use mw-1 too' <<<"base model=lenet5 data=digits
question Q1: ?
run mw
vary lr 1 2
question Q2: ?
baseline mw
run b"
wrong 'a question without runs' 3 'question Q2 has no runs' <<<"base model=lenet5 data=digits
question Q2: ?"
wrong 'settings that do not go together' 4 ' batch-size is the batch of all workers together, batch-per-worker that of each' <<<"base model=lenet5 data=digits batch-size=64
question Q1: ?
run a batch-per-worker=32"
wrong 'model and data that do not fit' 4 'run a' <<<"base data=fake:1x4x4:10:100
question Q1: ?
run a model=lenet5"
wrong 'unknown setting' 2 'did you mean epochs?' <<<"base model=lenet5 data=digits epoch=3
question Q1: ?
run a"
wrong 'a setting of the lab itself' 2 'a lab chooses the folders of its runs' <<<"base model=lenet5 data=digits run=x
question Q1: ?
run a"
wrong 'published per cent' 7 'write 0.9905 or 99.05%' <<<"source S
base model=lenet5 data=digits
question Q1: ?
run a
show accuracy
published accuracy a=99.05"
wrong 'a question without a colon' 3 'write question Q1: What is it?' <<<"base model=lenet5 data=digits
question What is it?
run a"
wrong 'a target that no run has' 5 'write target=0.9' <<<"base model=lenet5 data=digits
question Q1: ?
run a
show target"
wrong 'a value that is none' 2 'wrong.lab:2: lr=fast: expected a number from 0 to' <<<"base model=lenet5 data=digits lr=fast
question Q1: ?
run a"
lab run no-such
one_line_error 'no such lab' 2 'unknown lab'
lab run svnh
one_line_error 'a misspelt lab' 2 'did you mean svhn?'
cp own.lab momentum.lab
lab show momentum
one_line_error 'a file without its ending' 2 'did you mean the file momentum.lab?'
lab show own
one_line_error "a lab's folder" 2 "lockstep lab show own/lab.txt"
lab run full
one_line_error 'a folder that is no lab' 2 "full is a folder without lab.txt, so no lab's"
lab run no-such.lab
one_line_error 'no such file' 3 'lab: open no-such.lab: No such file'
mkfifo fifo.lab
for what in show run; do
    lab $what fifo.lab
    one_line_error "$what: a file that cannot be read" 3 'lab: fifo.lab is not a regular file'
done
lab shwo svhn
one_line_error 'a misspelt action' 2 'did you mean show?'
lab run svhn --run nodata
one_line_error 'data that is not there' 3 'lockstep data fetch svhn'
has 'or stand-in' err '--stand-in'
[ ! -e nodata ] && ok 'nothing was made'

# What is nearest says how long a training is.
cat >length.lab <<END
title  Length
base   model=softmax data=$data epochs=2 no-eval=on
question Q1: ?
  run  far
  run  near iterations=9
  vary lr 0.1 0.2
question Q2: ?
  base iterations=7
  run  nearer
  run  own epochs=3
END
lab show length.lab --json
equal 'epochs or iterations, the nearest' "$(for run in far near-0.1 nearer own; do python3 -c '
import json, re, sys
print(*re.findall(r"--(?:epochs|iterations) \d+", next(j for j in json.load(open("out"))["jobs"] if j["run"] == sys.argv[1])["command"]))' $run; done | tr '\n' ' ')" \
    '--epochs 2 --iterations 9 --iterations 7 --epochs 3 '
cat >blank.lab <<END
title Nothing to compare with
base  model=softmax data=$data epochs=1
question Q1: ?
  run  a
  show time predicted
END
lab show blank.lab
has 'a forecast that no run has is told' err 'warning: Q1 shows predicted, but none of its runs has a forecast'
train softmax $data --nodes 2 --slow 3:2
one_line_error 'train: a slow node that is not there' 2 '--slow 3:2 holds back node 3, but there are 2'
train softmax $data --slow 2:2
one_line_error 'train: a slow node of one process' 2 'give --nodes 2, too'
train softmax $data -i 3 --slow 1:2 --run held
equal 'train: one process held back' "$code" 0

# --- weak scaling ---
train softmax $data --batch-per-worker 8 -w 2 -i 3 --run weak
equal 'batch per worker' "$code $(field batch_size weak/result.json)" '0 16'
train softmax $data --batch-per-worker 8 -b 16
one_line_error 'both batches' 2 'give one'
finish
