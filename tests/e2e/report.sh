#!/usr/bin/env bash
# report.sh LOCKSTEP: `report`, `show`, `diff`, `watch` and `plot` of real short runs, of runs that are under way, and of folders that
# somebody has prepared. The numbers of a report are computed again from the run's files.
# test: sanitize
# shellcheck disable=SC2154,SC1091 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
run() { "$@" >out 2>err </dev/null; code=$?; }
check() { # WHAT FILE CHECK...
    local what=$1 text
    shift
    if text=$(python3 "$here/report.py" "$@" 2>&1); then ok "$what"; else bad "$what: $text"; fi
}
small() { train softmax fake:1x8x8:4:256 -b 32 --epochs 3 --log-every 2 "$@"; equal "train $*" "$code" 0; }

small --run a --threads 1
small --run b --threads 2
small --run c --threads 1 --seed 2

# One run.
run "$lockstep" report a -o a.html
equal 'one run: exit code' "$code" 0
check 'one run: well formed, its numbers' a.html one=a 'text=softmax on fake:1x8x8:4:256' 'text=Where the time went' 'text=lockstep train softmax' layers=a 'text=learning rate'
# The command it prints trains the same weights when it is pasted.
command=$(python3 -c 'import html,re; print(html.unescape(re.search(r"<pre>(.*?)</pre>", open("a.html").read(), re.S)[1]))')
equal 'the command it prints' "${command%% *}" lockstep
run bash -c "${command/#lockstep/\"$lockstep\"} --run pasted -q --json"
equal 'the command, pasted: the same weights' "$(field weights_hash)" "$(field weights_hash a/result.json)"

train softmax fake:1x8x8:4:256 -b 32 --epochs 1 --no-record --run silent
equal 'without a recording no step is measured' "$(field layers silent/result.json)" '[]'
run "$lockstep" report silent -o silent.html
check 'its report says so' silent.html 'text=What each layer costs was not recorded'

# Several.
run "$lockstep" report a b -o ab.html
check 'two numbers of threads' ab.html ratio=a,b 'text=What differs: threads' 'text=The weights of all 2 runs are identical' 'text=Speed-up' 'text=Efficiency'
run "$lockstep" report a c -o ac.html
check 'two seeds are repeats' ac.html 'text=they are repeats' 'text=2 repeats' 'no=Side by side'
mkdir folder && cp -r a b c folder/
run "$lockstep" report folder -o folder.md
equal 'a folder as Markdown: exit code' "$code" 0
n=0
while read -r file; do
    n=$((n + 1))
    python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$file" 2>/dev/null || bad "the picture $file"
done < <(sed -n 's/.*](<\(.*\)>)$/\1/p' folder.md)
if [ $n -ge 3 ]; then ok "Markdown with $n pictures"; else bad "Markdown: $n pictures"; fi
run "$lockstep" report a -o a.pdf
if [ "$code" -eq 0 ]; then equal 'PDF' "$(head -c 5 a.pdf)" '%PDF-'; else one_line_error 'PDF without cairo' 1 cairo; fi
train softmax fake:1x8x8:4:256 -b 64 --epochs 3 --log-every 2 --run d --threads 1
run "$lockstep" report a d -o ad.html
check 'two batch sizes' ad.html 'text=batch size' 'no=Speed-up' 'text=Accuracy on test data'

# Runs that are not done: a manifest and half a line; nothing but metrics; results that are cut.
mkdir half && cp a/manifest.json half/ && head -c 700 a/metrics.jsonl >half/metrics.jsonl && head -c 50 a/result.json >half/result.json
run "$lockstep" report half -o half.html
check 'a run that was killed' half.html 'text=died before it could say why' 'text=Not recorded'
mkdir bare && cp a/metrics.jsonl bare/
run "$lockstep" report bare a -o bare.html
check 'metrics without a manifest' bare.html 'text=1 of 2 runs have not ended'
run "$lockstep" show bare half
equal 'show of both: exit code' "$code" 0

# Somebody's idea of a run.
evil='<script>alert(1)</script><img src=x onerror=alert(2)>'
name="$(printf 'run\033[31m\"><svg onload=x>')"
mkdir "$name" && mkdir "$name/ranks"
python3 - "$name" "$evil" <<'END'
import json, os, sys
run, evil = sys.argv[1:]
json.dump({"model": evil, "batch_size": 1e308, "options": {"model": evil, "data": "`" + evil + "\x00\x1b[2J", "lr": evil, "seed": -1, evil: 1},
           "machine": {"host": evil}, "started": "\u202e" + evil}, open(f"{run}/manifest.json", "w"))
json.dump({"steps": 1e300, "weights_hash": evil, "seconds": {"compute": -1, "load": 1e308}, "images_per_second": 1e999, "test_accuracy": 7,
           "ranks": [{evil: evil, "host": evil, "x": [1]}, 5], "layers": [{"layer": evil, "op": evil, "forward_seconds": evil, "share": 1e308}, 5, {"layer": 7}]}, open(f"{run}/result.json", "w"))
with open(f"{run}/metrics.jsonl", "w") as f:
    f.write("x" * 3000000 + "\n" + json.dumps({"split": evil, "loss": 1}) + "\n" + '{"split": "train", "step": 1, "loss": 1e999}\n{"split": "test", "step"')
with open(f"{run}/resources.csv", "w") as f:
    f.write(f"elapsed_time,cpu,{evil},event\n0,1e308,2,{evil}\n1,-5,3,checkpoint\n")
with open(f"{run}/ranks.csv", "w") as f:
    f.write(f"step,epoch,rank,host,loss,{evil}\n1,1e308,-7,{evil},{evil},3\n2,1,1e18,x,nan,2\n{evil}\n3,")
os.symlink("/etc", f"{run}/checkpoints")
os.symlink("/etc/passwd", f"{run}/ranks/1")
END
run "$lockstep" report "$name" -o evil.html
equal 'a hostile run: exit code' "$code" 0
check 'a hostile run: text stays text' evil.html no=root:
run "$lockstep" report "$name" a b -o evil3.html
check 'a hostile run among others' evil3.html
run "$lockstep" report "$name" -o evil.md
if grep -q '<script\|<img' evil.md; then bad 'Markdown lets tags through'; else ok 'Markdown without tags'; fi
quiet_terminal() { # WHAT: after a command: it succeeded and sent nothing but text
    if [ "$code" -ne 0 ]; then bad "$1 of a hostile run: exit code $code: $(cat err)"
    elif LC_ALL=C grep -q "$(printf '\033')" out; then bad "$1 of a hostile run talks to the terminal"
    else ok "$1 of a hostile run"; fi
}
run "$lockstep" show "$name"
quiet_terminal show
python3 -c 'import json, sys; json.dump({"how": "failed", "why": "\x1b[31m<script>`" + sys.argv[2] + "` ``", "step": "x"}, open(sys.argv[1] + "/ended.json", "w"))' "$name" "$evil"
run "$lockstep" report "$name" -o evil.html
check 'why a hostile run failed' evil.html 'text=It failed'
run "$lockstep" report "$name" -o evil.md
if grep -q '<script\|<img' evil.md; then bad 'Markdown lets tags of a reason through'; else ok 'a hostile reason in Markdown'; fi
run "$lockstep" show "$name"
quiet_terminal 'show of why'
run "$lockstep" diff "$name" a
quiet_terminal diff
run "$lockstep" watch "$name"
quiet_terminal watch

# In the terminal.
run "$lockstep" show a
has 'show: the accuracy' out "$(python3 -c 'import json; print("%.2f %% on test data" % (100 * json.load(open("a/result.json"))["test_accuracy"]))')"
run "$lockstep" diff a b
has 'diff: what differs' out 'threads'
has 'diff: the weights' out 'the weights are identical'
run "$lockstep" diff a c
has 'diff: the seed' out 'seed'
has 'diff: where they part' out 'losses part at step 2'
has 'diff: the weights of another seed' out 'the weights differ'

# Following a run while it trains: it does not end by itself.
background softmax fake:1x8x8:4:64 -b 8 --epochs 1000000 --log-every 0 --eval-every 1 --run live
eventually has_lines live/metrics.jsonl 2
"$lockstep" watch live >watched 2>err &
watcher=$!
pids+=("$watcher")
eventually has_lines watched 3
run "$lockstep" report live -o live.html
check 'a run under way' live.html 'text=still running'
kill -INT "$pid"
wait "$pid"
wait "$watcher"
equal 'watch: ends with the run' "$?" 0
has 'watch: says how' watched 'live: stopped after'
run "$lockstep" show live
has 'show: why it stopped' out 'stopped by SIGINT after step'
run "$lockstep" report live -o live.html
check 'a run that was stopped' live.html 'text=in good order' 'text=--resume live'
# One that was killed is told apart from it, one that failed says why, and one that went on has forgotten how it ended.
background softmax fake:1x8x8:4:64 -b 8 --epochs 1000000 --log-every 1 --no-eval --checkpoint-every 5 --run killed
eventually has_lines killed/metrics.jsonl 20
kill -KILL "$pid"
wait "$pid" 2>/dev/null
run "$lockstep" show killed
has 'show: a run that was killed' out 'its newest checkpoint is of step'
train lenet5 fake:1x28x28:10:64 -b 8 --epochs 1 --lr 100000 --run failed
differs 'a run that fails' "$code" 0
run "$lockstep" watch failed
has 'watch: why it failed' out 'failed: failed after 1 step: step 2'
cp -r a again && cp live/ended.json again/
train softmax fake:1x8x8:4:256 -b 32 --epochs 4 --log-every 2 --threads 1 --run again --resume auto
equal 'a run that went on' "$code" 0
if [ ! -e again/ended.json ]; then ok 'how it ended before is gone'; else bad "ended.json stays: $(cat again/ended.json)"; fi
run "$lockstep" watch a
has 'watch: a run that is done' out 'a: finished after 24 steps'

# Curves in one picture.
run "$lockstep" plot a="1 thread" b -o ab.svg --title 'Two runs' --marks '8:here'
equal 'plot of runs: exit code' "$code" 0
if python3 -c '
import xml.dom.minidom as m
text = " ".join(x.firstChild.data for x in m.parse("ab.svg").getElementsByTagName("text"))
assert "all logged values are equal, one hash" in text and "1 thread" in text and "here" in text, text' 2>err
then ok 'plot of runs: labels and verdict'; else bad "plot of runs: $(tail -n 1 err)"; fi

# What is wrong.
run "$lockstep" report a -o a.txt
one_line_error 'another ending' 2 '.html, .md or .pdf'
run "$lockstep" report nothere
one_line_error 'no such run' 4 'nothere'
mkdir empty
run "$lockstep" report empty
one_line_error 'an empty folder' 4 'empty'
run "$lockstep" report
one_line_error 'nothing named' 2 'RUN'
run "$lockstep" diff a
one_line_error 'diff of one' 2 'RUN'
run "$lockstep" watch empty
one_line_error 'watch of nothing' 4 'empty'
run "$lockstep" plot a
one_line_error 'plot of a run without a file' 2 '-o'
run "$lockstep" plot a -o x.svg --marks x
one_line_error 'bad marks' 2 '--marks'
run "$lockstep" report a -o no/such/a.html
one_line_error 'a folder that is not there' 1 'no/such'
finish
