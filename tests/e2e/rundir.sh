#!/usr/bin/env bash
# rundir.sh LOCKSTEP: a run directory that cannot be written, is full, or belongs to another; too little of anything else.
#
# Whatever is missing is said in one line with the right exit code, soon, and nothing that was there is lost.
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"

tiny=(softmax fake:1x28x28:10:96 -b 32 --shards 4 --epochs 3 -p 1 -t 2)
list() { (cd "$1" && find . ! -name lock | sort && find . -type f ! -name lock -exec sha256sum {} + | sort); }

# --- cannot be written ---
printf 'mine' >file
train "${tiny[@]}" --run file
one_line_error 'a file in the way' 4 'file'
train "${tiny[@]}" --run file/below
one_line_error 'a file above' 4 'file/below'
equal 'the file in the way is untouched' "$(cat file)" mine
mkdir -p sub && printf 'mine' >sub/checkpoints
train "${tiny[@]}" --run sub
one_line_error 'a file where checkpoints go' 4 'sub'
train "${tiny[@]}" --run "$(printf 'x%.0s' {1..5000})"
one_line_error 'a name that is too long' 4 'too long'

mkdir -p readonly
can_mount=no
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=64k tmpfs readonly 2>/dev/null; then
    can_mount=yes
    mounts+=("$work/readonly")
    mount -o remount,ro readonly
else
    chmod a-w readonly
fi
if [ $can_mount = yes ] || [ "$(id -u)" -ne 0 ]; then
    begin=$(children_ms)
    train "${tiny[@]}" --run readonly
    one_line_error 'a read-only run directory' 4 'readonly'
    ms=$(($(children_ms) - begin))
    if [ $ms -lt 1000 ]; then ok "a read-only run directory: noticed after $ms ms of CPU"; else bad "a read-only directory took $ms ms of CPU"; fi
    train "${tiny[@]}" --run readonly/below
    one_line_error 'a run directory below a read-only one' 4 'readonly/below'
else
    skipped 'a read-only directory: root writes everywhere, and nothing can be mounted here'
fi

# --- belongs to a run already ---
train "${tiny[@]}" --run first
equal 'a first run' $code 0
list first >before
train "${tiny[@]}" --run first
one_line_error 'a run directory that holds a run' 4 'already holds a run'
list first >after
same_file 'that run is untouched' before after

# --- belongs to somebody else ---
# Checkpoints without their manifest are no free place: a run would remove them.
mkdir -p copied notes
cp -r first/checkpoints copied/
echo mine >notes/lock
for one in copied notes; do
    list $one >before
    sha256sum $one/lock >>before 2>/dev/null
    for how in '' '--resume auto'; do
        # shellcheck disable=SC2086 # two words or none
        train "${tiny[@]}" --run $one $how
        one_line_error "$one${how:+, $how}: not ours" 4 "$one is not empty and holds no run"
    done
    list $one >after
    sha256sum $one/lock >>after 2>/dev/null
    same_file "$one: untouched" before after
done
train "${tiny[@]}" --run moved-on --resume copied/checkpoints/latest.safetensors --epochs 4
equal 'its checkpoint can be resumed in another directory' $code 0

# --- what can never be saved is not begun ---
{
    printf 'model many\ninput any\n'
    for ((i = 0; i < 4200; i++)); do echo "bias b$i"; done
    printf 'flatten\nlinear fc classes\n'
} >many.net
train ./many.net fake:1x2x2:2:8 -b 4 --shards 2 -t 1 --run many --device ref
one_line_error 'too many tensors' 4 'this training could not be saved'
long=$(printf 'n%.0s' {1..90})
{
    printf 'model long\ninput any\n'
    for ((i = 0; i < 4000; i++)); do echo "bias $long$i"; done
    printf 'flatten\nlinear fc classes\n'
} >long.net
train ./long.net fake:1x2x2:2:8 -b 4 --shards 2 -t 1 --run long --device ref
one_line_error 'a header that is too long' 4 'this training could not be saved'
(
    ulimit -f 64
    exec "$lockstep" train mlp fake:1x28x28:10:96 -b 32 --shards 4 --epochs 6 -t 2 --run toolarge --json -q
) >out 2>err </dev/null
code=$?
one_line_error 'files may not be that large' 4 'File too large'
for one in many long toolarge; do
    if [ -e $one ]; then bad "$one: a run directory is left: $(ls -A $one)"; else ok "$one: no run directory is left"; fi
done
(
    ulimit -f 1
    exec "$lockstep" train "${tiny[@]}" --checkpoint-every none --run nometrics --json -q
) >out 2>err </dev/null
code=$?
one_line_error 'no file of the run fits: an error, not a signal' 4 'File too large'
odd=$(printf 'long-folder-name/%.0s' {1..12})$'odd\xff'
if python3 "$here/pictures.py" "$odd" 16 8 && train softmax "folder:$odd" --resize 12 -b 8 --shards 2 --epochs 1 --run odd-path && [ $code -eq 0 ]; then
    ok 'a path that is not UTF-8'
    hash=$(field weights_hash)
    "$lockstep" eval odd-path --json -q >out 2>err
    equal 'a path that is not UTF-8: evaluated from its checkpoint' "$? $(field weights_hash)" "0 $hash"
    train softmax "folder:$odd" --resize 12 -b 8 --shards 2 --epochs 2 --run odd-path --resume auto
    equal 'a path that is not UTF-8: resumed' "$code" 0
    "$lockstep" inspect "$(newest_of odd-path)" >out 2>err
    equal 'a path that is not UTF-8: inspected' $? 0
elif grep -q 'png' err; then
    skipped 'a path that is not UTF-8: this build reads no pictures'
else
    bad "a path that is not UTF-8: exit $code: $(cat err)"
fi

# --- a model that is none leaves no directory ---
printf 'model bad\ninput any\nconv c 8 99\n' >bad.net
mkdir -p empty && cd empty || exit 2
"$lockstep" train ../bad.net fake:1x8x8:4:48 -q >../out 2>../err </dev/null
equal 'a bad model: nothing is left' "$(find . -mindepth 1)" ''
cd .. || exit 2

# --- in use ---
endless=(lenet5 fake:1x28x28:10:640 -b 32 --shards 4 --schedule constant --epochs 1000000 -p 1 --no-eval)
background "${endless[@]}" -t 2 --run held
eventually has_lines held/metrics.jsonl 2 || bad "the first run does not start: $(cat err.bg)"
train "${endless[@]}" --run held --resume auto
one_line_error 'a second process' 4 "in use by process $pid"
train "${tiny[@]}" --run held
one_line_error 'a second process without --resume' 4 "in use by process $pid"
kill -TERM "$pid"
wait "$pid"
equal 'the first is unharmed: exit code' $? 75
hash=$(field weights_hash out.bg)
train "${endless[@]}" -i "$(field steps out.bg)" --run alone
equal 'the first is unharmed: weights' "$hash" "$(field weights_hash)"
metrics_of held >a
metrics_of alone >b
same_file 'the first is unharmed: metrics' a b

# --- a full disk ---
mkdir -p small
if [ $can_mount = yes ] && mount -t tmpfs -o size=1m tmpfs small 2>/dev/null; then
    mounts+=("$work/small")
    # mlp's checkpoint has several hundred kB: the first fits, the second does not.
    mlp=(mlp fake:1x28x28:10:96 -b 32 --shards 4 --epochs 6 -p 1 -t 2)
    train "${mlp[@]}" --run big
    bytes=$(stat -c %s "$(newest_of big)")
    mount -o remount,size=$((bytes * 3 / 2 + 40960)) small
    train "${mlp[@]}" --run small/run
    one_line_error 'a full disk' 4 'small/run/checkpoints/step-'
    grep -qE '[0-9]+ bytes' err && ok 'a full disk: says how many bytes are needed' || bad "a full disk: no bytes in: $(cat err)"
    if compgen -G 'small/run/checkpoints/*.tmp.*' >/dev/null; then bad 'a full disk: a temporary is left'; else ok 'a full disk: no temporary is left'; fi
    checkpoint=$(newest_of small/run)
    "$lockstep" inspect "${checkpoint:-none}" >out 2>err
    equal "a full disk: the checkpoint before is whole (${checkpoint##*/})" $? 0
    mount -o remount,size=64m small
    train "${mlp[@]}" --run small/run --resume auto
    equal 'more space, resumed: exit code, weights' "$code $(field weights_hash)" "0 $(field weights_hash big/result.json)"
    metrics_of small/run >a
    metrics_of big >b
    same_file 'more space, resumed: metrics' a b

    # Full for the metrics only: training goes on, with a warning.
    mkdir -p small/metrics
    train "${mlp[@]}" --run small/metrics -i 1 --checkpoint-every none
    rm -rf small/run small/metrics
    mount -o remount,size=100k small
    train softmax fake:1x28x28:10:3200 -b 8 --shards 4 --epochs 2 -p 1 --checkpoint-every none --run small/metrics
    if [ $code -eq 0 ] || { [ $code -eq 4 ] && grep -q 'result.json' err; }; then
        ok "a full disk for metrics: exit $code"
    else
        bad "a full disk for metrics: exit $code: $(cat err)"
    fi
    has 'a full disk for metrics: a warning' err 'warning: write small/metrics/metrics.jsonl: No space left on device'
    equal 'a full disk for metrics: one warning' "$(grep -c 'metrics.jsonl' err)" 1
    python3 -c 'import json; [json.loads(l) for l in open("small/metrics/metrics.jsonl")]' &&
        ok 'a full disk for metrics: every line is whole' || bad 'a full disk for metrics: a torn line'
else
    skipped 'a full disk: nothing can be mounted here'
fi

# --- too little memory, files ---
for kb in 20000 60000 150000 400000; do
    rm -rf limited
    (
        ulimit -v $kb
        exec "$lockstep" train resnet18 fake:3x32x32:10:1000 -b 256 -i 1 --no-eval --run limited --json -q
    ) >out 2>err </dev/null
    code=$?
    # The loader of shared libraries has its own words and code, before our first line runs.
    if [ $code -eq 127 ] && grep -q 'error while loading shared libraries' err; then ok "ulimit -v $kb: the program does not start"; continue; fi
    one_line_error "ulimit -v $kb" 1 'memory'
done
for files in 64 16 8; do
    rm -rf limited
    (
        ulimit -n $files
        exec "$lockstep" train "${tiny[@]}" --run limited --json -q
    ) >out 2>err </dev/null
    code=$?
    if [ $code -eq 0 ]; then ok "ulimit -n $files: works"; else one_line_error "ulimit -n $files" "$code" 'lockstep'; fi
done

# --- nobody listens ---
"$lockstep" train "${tiny[@]}" --run full --json -q >/dev/full 2>err
code=$?
one_line_error 'stdout on a full device' 1 'stdout'
equal 'stdout on a full device: the run is whole' "$(field weights_hash full/result.json)" "$(field weights_hash first/result.json)"
"$lockstep" train "${tiny[@]}" --run closed -q >&- 2>err
code=$?
one_line_error 'stdout closed' 1 'stdout'
equal 'stdout closed: the run is whole' "$(field weights_hash closed/result.json)" "$(field weights_hash first/result.json)"
"$lockstep" train "${tiny[@]}" --run deaf --json >out 2>&-
equal 'stderr closed' "$? $(field weights_hash)" "0 $(field weights_hash first/result.json)"
"$lockstep" train "${tiny[@]}" --run deaf2 --json >out 2>/dev/full
equal 'stderr on a full device' "$? $(field weights_hash)" "0 $(field weights_hash first/result.json)"
"$lockstep" train "${tiny[@]}" --run all-closed <&- >&- 2>&-
equal 'all three closed: the run is whole' "$(field weights_hash all-closed/result.json)" "$(field weights_hash first/result.json)"
for one in deaf closed all-closed; do
    "$lockstep" inspect $one >out 2>err || bad "$one: the run is damaged: $(cat err)"
    # What was to be printed has not gone into a file that got the number of a closed stream.
    equal "$one: the lock holds a number and nothing else" "$(tr -d '0-9\n' <$one/lock)" ''
    metrics_of $one >a
    metrics_of first >b
    same_file "$one: metrics" a b
done

finish
