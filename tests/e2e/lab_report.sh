#!/usr/bin/env bash
# lab_report.sh LOCKSTEP: the report of a lab: every table and sentence of it follows from the files of the runs, also where runs are missing.
#
# lab_report.py computes the report's lines a second time from the raw files, lab_figures.py measures its pictures; report.py looks whether the
# page is well formed.
# test: sanitize timeout=600
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
has_mpi=$(for mpi in openmpi mpich; do
    if [ -e "$(dirname "$lockstep")/lockstep-$mpi.so" ] && command -v "mpirun.$mpi" >/dev/null; then echo yes; break; fi
done)

has_ps=$("$lockstep" server --keygen keys >/dev/null 2>&1 && echo yes)

follows() { # WHAT DIR
    local said
    if said=$(python3 "$here/lab_report.py" "$2" 2>&1); then ok "$1: $said"; else bad "$1: $said"; fi
    if said=$(python3 "$here/lab_figures.py" "$2" 2>&1); then ok "$1: $said"; else bad "$1: $said"; fi
    if said=$(python3 "$here/report.py" "$2/report.html" 2>&1); then ok "$1: the page is well formed"; else bad "$1: $said"; fi
}
does_not_follow() { # WHAT DIR
    if python3 "$here/lab_report.py" "$2" >said 2>&1; then bad "$1: not found"; else has "$1 is found" said ' problems'; fi
}

cat >all.lab <<'END'
title   Everything that can be shown
source  A "made-up" report, somebody's; another machine & <another> program.
text    Random pixels.
base    model=softmax data=fake:1x8x8:4:400 epochs=2 lr=0.05 checkpoint-every=none
repeat  2
question Q1: Batches
  text  Larger batches make fewer steps.
  run   batch
  vary  batch-size 16 32
  show  accuracy time curves resources
  published time batch-16=469 batch-32=7952..9238
  published accuracy batch-16=0.9156
question Q2: Checkpoints, and a run that fails
  base  batch-size=16
  use   batch
  run   often checkpoint-every=5
  run   wild lr=100000 epochs=30
  show  time communication
question Q6: Tables of one width that follow each other
  use   batch-16 often
  show  time speed-up
question Q3: Targets
  base  batch-size=16
  run   race
  vary  target 0.01 0.02 1
  show  target accuracy
  published target race-0.01=86
question Q7: Part of a published set, and a figure that may be of another run
  base  data=mnist data-dir=data batch-size=16 epochs=1
  run   part
  run   cut validation=20 no-eval=on
  show  time
  published time part=8 cut=12?
question Q8: Which batch is better, and when?
  base  epochs=1
  run   size
  vary  lr 0.001 0.05
  vary  batch-size 8 200
  compare batch-size
  show  time accuracy
question Q9: What is one training, and what is not
  base  epochs=1 batch-size=16
  run   same
  vary  threads 1 2
  run   other seed=7
  compare threads seed
  show  time
question Q4: One
  run   one batch-size=8
  show  time accuracy resources hash predicted bandwidth
END
if [ -n "$has_mpi" ]; then cat >>all.lab <<'END'; fi
question Q5: Workers
  base  iterations=10
  run   alone batch-size=16
  run   more batch-size=16
  vary  workers 2
  run   nodes batch-size=16
  vary  nodes 2
  run   weak batch-per-worker=16
  vary  workers 1 2
  show  time speed-up communication bandwidth hash predicted nodes curves
  published time alone=100 more-2=60
END
if [ -n "$has_ps" ]; then cat >>all.lab <<'END'; fi
question Q10: A server, which evaluates for most of the time
  base  data=fake:1x64x64:4:400 epochs=2 batch-size=200 eval-every=1 sync=ps threads=1
  run   served
  vary  workers 2
  run   apart
  vary  nodes 2
  vary  network 1gbit,0.1ms
  show  communication nodes resources
END
python3 - <<'END'
import os, struct
os.makedirs("data/MNIST/raw")
for name, n in (("train", 120), ("t10k", 50)):
    with open(f"data/MNIST/raw/{name}-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">4I", 2051, n, 28, 28) + bytes((i * 7 + k) % 251 for i in range(n) for k in range(784)))
    with open(f"data/MNIST/raw/{name}-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">2I", 2049, n) + bytes(i % 10 for i in range(n)))
END
"$lockstep" lab run all.lab --run all >out 2>err </dev/null
equal 'a lab with a run that fails: exit code' $? 1
follows 'all that can be shown' all
has 'the failed run is told' all/report.md 'runs/wild-r1 | failed |'
has 'published figures are labelled' all/report.md 'published, another machine'
has 'the summary: what is shown first' all/report.md '- Q4: one took '
has 'accuracies have two digits behind the point' all/report.md '| test accuracy (%) | test loss | training loss, mean of the last epoch |'
has 'the noise of accuracies is told' all/report.md '1.96 standard errors of test sets of that size'
has 'how much of a published set was there' all/report.md 'Data: mnist, 120 images to train on and 50 to test on; 60,000 and 10,000 are published.'
has 'with images put aside' all/report.md 'Data: mnist, 100 images to train on, 20 more to validate on; 60,000 are published.'
has 'where the published figures stand, too' all/report.md 'The published set has 60,000 images to train on, ours 120. (?): it is not certain that the figure is of this run.'
has 'what is not certain is marked' all/report.md ' 12 (?) |'
equal 'and not computed with' "$(grep -c '1.50 times' all/report.md)" 0
equal 'the summary tells of the runs of the question itself' "$(grep -c '^- Q2: .*often .*batch-16 ' all/report.md)" 1
equal 'what `use` brings is compared where it belongs' "$(sed -n '/^## Q2/,/^## Q6/p' all/report.md | grep -c '^- .*batch-32')" 0
if [ -n "$has_mpi" ]; then
    has 'workers that share what one process has: no ideal but 1' all/report.md 'more-2 and alone computed with as many cores ('
    has 'and their threads stand beside them' all/report.md '| run | workers | threads of each | images/s | speed-up | against | of the ideal (%) |'
fi
summary() { sed -n '/^## /q; s/^- //p' all/report.md | grep "^$1: "; } # QUESTION
equal 'the summary of a comparison: who is best' "$(summary Q8 | grep -c 'Q8: Fastest: .* with lr 0.001.* with lr 0.05')" 1
equal 'each case with its spread' "$(grep -c '^- With lr 0.0[015]*: batch-size .* s; batch-size .* s, ' all/report.md)" 2
equal 'what the other setting does' "$(grep -c '^- batch-size 200, against its time with lr 0.001: .* with lr 0.05\.' all/report.md)" 1
equal 'accuracies are compared, too' "$(grep -c '^- Most accurate: ' all/report.md)" 1
has 'another training is told as such' all/report.md 'threads not set seed 7 ended with other weights than threads 1: another training, of which this is the time only.'
for picture in Q1-time Q1-accuracy Q1-curves Q1-resources Q2-communication Q3-target; do
    if [ -s "all/report/$picture.svg" ]; then ok "a picture: $picture"; else bad "no picture $picture"; fi
done

if [ -n "$has_mpi" ]; then
    # Faster with as many cores: that it cannot be is not said.
    cp -r all faster
    python3 - <<'END'
import json
for k in (1, 2):
    path = f"faster/runs/more-2-r{k}/result.json"
    result = json.load(open(path))
    result["train_seconds"] = min(json.load(open(f"faster/runs/alone-r{i}/result.json"))["train_seconds"] for i in (1, 2)) / (2 + k)
    json.dump(result, open(path, "w"))
END
    "$lockstep" lab report faster >out 2>err </dev/null
    follows 'faster than the ideal' faster
    equal 'faster than the ideal: no reason why that cannot be' "$(grep -c 'more-2 and alone computed with as many cores .*: what is above the ideal does not come from more' faster/report.md) \
$(grep -c 'more-2 and alone .* there is nothing' faster/report.md)" '1 0'
fi
if [ -n "$has_ps" ]; then
    has 'a server is no worker' all/report.md '| served-2 | this machine, server |  |  |'
    has 'its workers are two' all/report.md '| served-2 | this machine | 2 | 800 |'
    equal 'shares of a served run' "$(sed -n 's/^- served-2: \([0-9]*\) % of the time computed, \([0-9]*\) % waited for the server and for others\.$/\1 \2/p' all/report.md |
        awk '{ print ($1 + $2 <= 101) }')" 1
    if grep -q 'network namespaces on one computer' all/report.md; then
        has 'the shape of the links' all/report.md "The 2 nodes of the network 1gbit,0.1ms are network namespaces on one computer, whose $(getconf _NPROCESSORS_ONLN) core"
        equal 'CPU and memory of every node' "$(grep -c '^| apart-2-1gbit\\_0.1ms | node[12]\(, server\)\? |.*| [0-9.]* | [1-9][0-9.]* |$' all/report.md)" 3
    else
        has 'no shape of links' all/report.md 'The network was not shaped (that needs root)'
    fi
fi

# More workers than devices.
plugins=$(dirname "$lockstep")/plugins
if [ -n "$has_mpi" ] && [ -e "$plugins/lockstep-far.so" ]; then
    cat >far.lab <<'END'
title Devices
base  model=softmax data=fake:1x8x8:4:400 iterations=10 batch-size=16 device=far threads=1 no-eval=on
question Q1: Two workers on one
  run   w
  vary  workers 1 2
  show  speed-up
END
    for cards in 1 2; do
        LOCKSTEP_PLUGINS=$plugins LOCKSTEP_FAR_CARDS=$cards "$lockstep" lab run far.lab --run far$cards >out 2>err </dev/null
        follows "two workers, devices: $cards" far$cards
    done
    has 'a device that two share: why' far1/report.md 'The 2 workers of w-2 share 1 device.'
    has 'a device that two share: the ideal is 1' far1/report.md 'w-2 and w-1 computed with as many devices (1): '
    equal 'a device of its own: nothing is shared' "$(grep -c 'share 1 device\|as many devices' far2/report.md)" 0
fi

# Many runs.
cat >many.lab <<'END'
title Many
base  model=softmax data=fake:1x8x8:4:40 iterations=1 batch-size=8 no-eval=on
question Q1: Seeds
  run   of
  vary  seed 1 2 3 4 5 6 7 8 9 10 11 12 13
  show  resources
END
"$lockstep" lab run many.lab --run many >out 2>err </dev/null
follows 'more runs than a picture has room for' many
has 'that is said' many/report.md 'The picture has the first 12 of 13 runs.'

# The same report as PDF, and on a page that is 1000 pixels wide.
if "$lockstep" lab report many -o many.pdf >out 2>err </dev/null; then
    if said=$(python3 "$here/pdf_text.py" all/report.pdf "$(sed -n 's/^title  *//p; s/^question  *//p' all.lab)" 2>&1); then ok "PDF: $said"; else bad "PDF: $said"; fi
else
    skipped "no PDF: $(head -n 1 err)"
fi
if command -v chromium >/dev/null; then
    sed -e 's,<meta http-equiv[^>]*>,,' -e 's,</body>,<script>document.body.innerHTML = [...document.querySelectorAll(".wide")].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText).join("; ") + "wide: done"</script></body>,' \
        all/report.html >wide.html
    chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/chromium" --window-size=1000,800 --dump-dom "file://$PWD/wide.html" >dom 2>err </dev/null
    equal 'no table is cut off at 1000 pixels' "$(tr '\n\t' '  ' <dom | sed -n 's/.*<body>\(.*\)wide: done.*/\1/p')" ''
    has 'the page was looked at' dom 'wide: done'
else
    skipped 'the width of tables: chromium is not installed'
fi

has 'pictures are called what they show' all/report.md '![Time of training](<report/Q1-time.svg>)'
has 'inside, too' all/report/Q1-time.svg '<title>Time of training</title>'
equal 'whole epochs below the curves of two' \
    "$(grep -o 'text-anchor="middle"[^>]*>[0-9.]*<' all/report/Q1-curves.svg | sed 's/.*>\(.*\)</\1/' | sort -u | tr '\n' ' ')" '1 2 '
has 'the machine' all/report.md '| processor | '
equal 'quotes are quotes' "$(grep -c '&#39;\|&quot;' all/report.md)" 0
cp -r all changed
sed -i '0,/^| batch-32 | \([0-9]\)\.*\([0-9]\)/s//| batch-32 | 7\2/' changed/report.md
does_not_follow 'a changed number' changed
sed 's/^## Q2.*/&\n\nCheckpoints are free./' all/report.md >changed/report.md
does_not_follow 'a sentence that has no numbers' changed
shorter_bar() { python3 - "$1" <<'END'
import re, sys
text = open(sys.argv[1]).read()
open(sys.argv[1], "w").write(re.sub(r'(</title>\n<rect [^>]*width=")([\d.]+)', lambda m: f"{m[1]}{float(m[2]) * 0.9:.1f}", text, count=1))
END
}
shorter_bar changed/report/Q1-time.svg
if python3 "$here/lab_figures.py" changed >said 2>&1; then bad 'a bar of the wrong length: not found'; else has 'a bar of the wrong length is found' said 'ends: drawn at'; fi

# Of questions that share runs the one that is asked for.
"$lockstep" lab show all.lab --only Q6 >out 2>err </dev/null
equal 'only one question is planned' "$(grep -o '^ *Q[0-9]*' out | sort -u | tr -d ' \n')" Q6

# For others to read: no paths of this machine.
cat >private.lab <<END
title Private: 1/16 of it, images/s
base  model=softmax data=mnist data-dir=$PWD/data batch-size=16 epochs=1
question Q1: ?
  run here
  run none data=folder:/no/such/place/pictures
END
"$lockstep" lab run private.lab --run "$PWD/private" >out 2>err </dev/null
has 'a report for oneself has paths' private/report.md "--data-dir $PWD/data"
"$lockstep" lab report private --public -o public.md >out 2>err </dev/null
equal 'one for others: exit code' $? 0
equal 'no path of this machine' "$(grep -o "${PWD}[^ ]*\|/no/such[^ ]*" public.md)" ''
has 'commands as one would type them' public.md 'lockstep train softmax mnist --data-dir data --batch-size 16'
has 'what failed is told without its folder' public.md 'pictures'
has 'what is no path stays' public.md '# Private: 1/16 of it, images/s'
equal 'but for paths it is the same' "$(sed "s,$PWD/,,g; s,/no/such/place/,,g; s,report/Q,public/Q," private/report.md | diff - public.md)" ''
"$lockstep" lab run private --public >out 2>err </dev/null
code=$?
one_line_error 'a run is not public' 2 'lockstep lab report DIR --public'

# Other programs meanwhile.
sed -e '/^question Q2/,$d' all.lab >busy.lab
sh -c 'while :; do :; done' &
pids+=($!)
"$lockstep" lab run busy.lab --repeat 1 --run busy >out 2>err </dev/null
kill "${pids[-1]}"
python3 - busy/state.json >said <<'END'
import json, sys
for job in json.load(open(sys.argv[1]))["jobs"]:
    if not 0.3 < job["others_cpu_seconds"] / job["seconds"]: print(job["run"], job["others_cpu_seconds"], job["seconds"])
END
equal 'a program that only computes is noticed' "$(cat said)" ''
follows 'beside other programs' busy
has 'and warned of' busy/report.md 'The machine was busy with other programs, so times are disturbed'
"$lockstep" lab run busy >out 2>err </dev/null
equal 'gone on with, though all is done: exit code' $? 0
follows 'gone on with' busy
has 'gone on with: warned of still' busy/report.md 'The machine was busy with other programs, so times are disturbed'
quiet() { # CORES
    python3 - "$1" <<'END'
import json, sys
state = json.load(open("busy/state.json"))
for job in state["jobs"]:
    job["others_cpu_seconds"] = job["seconds"] * (float(sys.argv[1]) if job["run"] == "batch-16" else 0.1)
json.dump(state, open("busy/state.json", "w"))
END
    "$lockstep" lab report busy >out 2>err </dev/null
}
sed -i '/others_cpu_seconds/d; s/\("seconds": [^,]*\),/\1/' busy/state.json # as an older program wrote it
"$lockstep" lab report busy >out 2>err </dev/null
follows 'where others were not recorded' busy
has 'that is told' busy/report.md 'was not recorded'
quiet 0.29
equal 'others that hardly compute' "$(grep -c 'The machine was busy' busy/report.md)" 0
quiet 0.31
has 'the run that is disturbed' busy/report.md 'repeats): batch-16 (0.31).'
follows 'one run of two beside others' busy

# Half of it: trainings that were never begun.
waiting() { # CONDITION on job
    python3 - "$1" <<'END'
import json, shutil, sys
state = json.load(open("half/state.json"))
for job in state["jobs"]:
    if eval(sys.argv[1]):
        job["state"] = "waiting"
        shutil.rmtree("half/" + job["dir"], ignore_errors=True)
json.dump(state, open("half/state.json", "w"))
END
    rm -rf half/report*
    "$lockstep" lab report half >out 2>err </dev/null
}
cp -r all half
waiting 'job["repeat"] == 2 or job["run"].startswith("race")'
equal 'half a lab: exit code' $? 0
follows 'half a lab' half
has 'half a lab: what is missing' half/report.md 'Not all is there: trainings done of batch-16 (1 of 2)'
has 'half a lab: measured once' half/report.md 'measured once, so the noise is not known'
waiting True
equal 'nothing done: exit code' $? 0
follows 'nothing done' half

"$lockstep" lab report all >out 2>err </dev/null
has 'all files are named' out 'all/report.md'
"$lockstep" lab report all --json >out 2>err </dev/null
equal 'as JSON, too' "$(python3 -c 'import json; print(*json.load(open("out"))["files"][:2])')" 'all/report.html all/report.md'
"$lockstep" lab report all -o one.md >out 2>err </dev/null
equal 'a file of its own: exit code' $? 0
if [ -s one.md ] && [ -s one/Q1-time.svg ]; then ok 'a file of its own, with pictures'; else bad 'a file of its own: not there'; fi
"$lockstep" lab report all -o one.doc >out 2>err </dev/null
code=$?
one_line_error 'an unknown ending' 2 'ending in .html, .md or .pdf'
finish
