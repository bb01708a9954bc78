#!/usr/bin/env bash
# resume.sh LOCKSTEP [FAULTS [long]]: a run that was stopped, killed or damaged and then resumed ends as if nothing had happened.
#
# 1. N steps, then --resume up to 2N, equal 2N at once: weights, every tensor of the checkpoint, metrics.
# 2. kill -9 at any moment and --resume auto, until it is done; and before chosen system calls of a checkpoint (strace).
# 3. Damaged checkpoints: the newest whole one is taken, with a warning; none whole: exit 4, nothing overwritten.
# 4. Other options, models, data: exit 4, the difference named. Finished runs, more epochs, another run directory.
# The moments of the kills come from RESUME_SEED (printed); `long` makes 20 trials and kills at many more system calls.
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
form=${3:-short}
command -v python3 >/dev/null || skip_all "python3 is not installed"

cat >mixed.net <<'END'
model mixed
input any
conv conv1 8 3 pad=1 bias=no
bn bn1
relu
dropout 0.2
maxpool 2
flatten
linear fc1 32
relu
linear fc2 classes
END
data=fake:1x16x16:10:100
base=(./mixed.net $data -b 20 --shards 5 --epochs 4 -p 1 --flip --crop-pad 2 --momentum 0.9 --weight-decay 1e-4)

# same_end WHAT RUN EXPECTED: result, newest checkpoint and metrics are those of the unbroken run
same_end() {
    local what=$1 run=$2 expected=$3
    if [ "$(field weights_hash "$run/result.json")" != "$(field weights_hash "$expected/result.json")" ]; then
        bad "$what: weights $(field weights_hash "$run/result.json"), expected $(field weights_hash "$expected/result.json")"
        return
    fi
    tensors_of "$(newest_of "$run")" >a
    tensors_of "$(newest_of "$expected")" >b
    if [ ! -s a ] || ! cmp -s a b; then bad "$what: checkpoints differ: $(diff a b | head -n 4)"; return; fi
    metrics_of "$run" >a
    metrics_of "$expected" >b
    if [ ! -s a ] || ! cmp -s a b; then bad "$what: metrics differ: $(diff a b | head -n 6)"; return; fi
    ok "$what"
}

# --- 1. N and N more ---

# halves WHAT "first arguments" "second arguments" RUN-ARGS...: both against $whole
halves() {
    local what=$1 first=$2 second=$3
    shift 3
    rm -rf half
    # shellcheck disable=SC2086
    train "$@" $first --run half
    if [ "$code" -ne 0 ]; then bad "$what: first half: exit $code: $(cat err)"; return; fi
    # shellcheck disable=SC2086
    train "$@" $second --run half --resume auto
    if [ "$code" -ne 0 ]; then bad "$what: second half: exit $code: $(cat err)"; return; fi
    same_end "$what" half whole
}

train "${base[@]}" --run whole
equal 'the unbroken run' "$code $(field steps)" '0 20'
halves 'stop at the end of an epoch' '-i 10' '' "${base[@]}"
halves 'stop within an epoch' '-i 8' '' "${base[@]}"
halves 'stop after the first step' '-i 1' '' "${base[@]}"
halves 'stop before the last step' '-i 19' '' "${base[@]}"
halves 'another number of threads' '-i 8 -t 1' '-t 5' "${base[@]}"
halves 'resume RUN instead of auto' '-i 8' '--resume half' "${base[@]}"
rm -rf half
for i in 3 7 8 14 20; do train "${base[@]}" -i $i --run half --resume auto; done
same_end 'in five sittings, the first one fresh' half whole

rm -rf whole
adam=("${base[@]}" --optimizer adamw --schedule onecycle --clip-norm 1 --label-smoothing 0.1)
train "${adam[@]}" --run whole
halves 'adamw' '-i 8 -t 1' '-t 3' "${adam[@]}"
rm -rf whole
small=(resnet-small fake:3x32x32:10:60 -b 20 --shards 5 --epochs 2 -p 2)
train "${small[@]}" --run whole
halves 'resnet-small' '-i 2 -t 1' '-t 2' "${small[@]}"
rm -rf whole
ref=(./mixed.net fake:1x12x12:10:50 -b 20 --shards 5 --epochs 2 -p 1 --device ref)
train "${ref[@]}" --run whole
halves 'ref' '-i 2 -t 1' '-t 2' "${ref[@]}"
rm -rf whole

# --- 2. killed ---

# A longer run, so that kills land everywhere: start, steps, checkpoints (every 7 steps, and each writes and removes), evaluation.
long=(./mixed.net fake:1x16x16:10:400 -b 20 --shards 5 --epochs 5 -p 3 --flip --crop-pad 2 --checkpoint-every 7)
train "${long[@]}" --run whole
equal 'the unbroken longer run' "$code $(field steps)" '0 100'
whole_ms=$(python3 -c 'import json; print(int(1000 * json.load(open("out"))["total_seconds"]) + 40)')
RANDOM=${RESUME_SEED:=$$}
note "RESUME_SEED=$RESUME_SEED, the whole run takes about $whole_ms ms"

# One trial: kill at random moments until a sitting ends by itself.
kill_trial() {
    local n_kills=0 delays='' delay
    rm -rf killed
    while [ $n_kills -lt 6 ]; do
        delay=$((RANDOM % whole_ms))
        background "${long[@]}" --run killed --resume auto -t $((n_kills % 3 + 1))
        sleep "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))"
        if ! kill -KILL "$pid" 2>/dev/null; then wait "$pid"; code=$?; break; fi
        wait "$pid" 2>/dev/null
        code=$?
        [ $code -eq 137 ] || break
        n_kills=$((n_kills + 1))
        delays="$delays $delay"
    done
    if [ $code -eq 137 ]; then train "${long[@]}" --run killed --resume auto; fi
    if [ $code -ne 0 ]; then bad "killed after ms$delays: exit $code: $(cat err.bg err 2>/dev/null | head -n 3)"; return; fi
    if compgen -G 'killed/checkpoints/*.tmp.*' >/dev/null; then bad "killed after ms$delays: a temporary is left"; return; fi
    same_end "killed $n_kills times after ms$delays" killed whole
}
if [ "$form" = long ]; then trials=20; else trials=3; fi
for ((i = 0; i < trials; i++)); do kill_trial; done

# Before the N-th call of a kind: strace sends SIGKILL.
if ! command -v strace >/dev/null; then
    skipped 'kills at system calls: strace is not installed'
elif ! ASAN_OPTIONS=detect_leaks=0 strace -f -o trace -e trace=renameat "$lockstep" train "${long[@]}" -i 8 --run traced -q >/dev/null 2>&1 ||
    ! grep -q 'step-00000007' trace; then
    skipped 'kills at system calls: strace cannot follow a process here'
else
    n_killed=0
    # kill_at CALL N: fails when there is no N-th call
    kill_at() {
        rm -rf killed
        cp -r begun killed
        { ASAN_OPTIONS=detect_leaks=0 strace -f -o trace -e trace="$1" -e inject="$1":signal=KILL:when="$2" \
            "$lockstep" train "${long[@]}" --run killed --resume auto -t 2 --json -q >out 2>err </dev/null; } 2>/dev/null
        code=$?
        [ $code -ne 0 ] || return 1
        if [ $code -ne 137 ]; then bad "kill at $1 number $2: exit $code: $(cat err)"; return 0; fi
        n_killed=$((n_killed + 1))
        train "${long[@]}" --run killed --resume auto
        if [ $code -ne 0 ]; then bad "kill at $1 number $2: cannot go on: exit $code: $(cat err)"; return 0; fi
        if compgen -G 'killed/checkpoints/*.tmp.*' >/dev/null; then bad "kill at $1 number $2: a temporary is left"; return 0; fi
        same_end "kill at $1 number $2" killed whole
    }
    train "${long[@]}" -i 60 --run begun
    if [ "$form" = long ]; then
        for call in openat write fsync renameat unlinkat symlinkat close ftruncate fallocate flock mkdir mkdirat; do
            n=1
            while kill_at $call $n; do n=$((n < 12 ? n + 1 : n + 5)); done
        done
    else
        for point in openat:45 write:3 write:12 fallocate:1 fsync:1 fsync:4 renameat:1 renameat:2 renameat:5 unlinkat:1 symlinkat:2; do
            kill_at ${point%:*} ${point#*:} || note "$point: no such call"
        done
    fi
    if [ $n_killed -ge 6 ]; then ok "$n_killed kills at system calls"; else bad "only $n_killed kills at system calls fired"; fi
fi

# --- 3. damaged checkpoints ---
list() { ls -lR --time-style=+ "$1"; sha256sum "$1"/checkpoints/* "$1"/*.json*; }
rm -rf whole good
train "${base[@]}" --run whole
train "${base[@]}" -i 15 --keep 3 --run good

# damaged WHAT COMMAND: COMMAND damages the newest checkpoint of the copy `hurt`
damaged() {
    rm -rf hurt
    cp -r good hurt
    newest=$(newest_of hurt)
    "${@:2}"
    train "${base[@]}" --run hurt --resume auto
    if [ $code -ne 0 ]; then bad "$1: exit $code: $(cat err)"; return; fi
    if ! grep -q "^lockstep: warning: checkpoint skipped: .*$(basename "$newest")" err; then
        bad "$1: no warning that names $(basename "$newest"): $(cat err)"
        return
    fi
    same_end "$1: the one before is taken" hurt whole
}
flip_middle() { python3 "$here/lib.py" flip "$newest" -5000; }
flip_header() { python3 "$here/lib.py" flip "$newest" 120; }
truncate_it() { truncate -s -1 "$newest"; }
empty_it() { : >"$newest"; }
damaged 'a bit of the data flipped' flip_middle
damaged 'a bit of the header flipped' flip_header
damaged 'the last byte missing' truncate_it
damaged 'an empty file' empty_it

rm -rf hurt
cp -r good hurt
for file in hurt/checkpoints/step-*; do python3 "$here/lib.py" flip "$file" -4000; done
list hurt >before
train "${base[@]}" --run hurt --resume auto
one_line_error 'all checkpoints damaged' 4 'none of the 3 checkpoints'
list hurt >after
same_file 'all checkpoints damaged: nothing is overwritten' before after

# --- 4. another run than before ---

# other PART ARGS...: exit 4 with PART, and the run is as it was
other() {
    local part=$1
    shift
    list good >before
    train "$@" --run good --resume auto
    one_line_error "resume with $part" 4 "$part"
    list good >after
    cmp -s before after || bad "resume with $part: the run was changed: $(diff before after | head -n 3)"
}
b=("${base[@]}")
other "batch_size '20', this run has '10'" "${b[@]}" -b 10
other "shards '5', this run has '4'" "${b[@]}" --shards 4
other "seed '1', this run has '9'" "${b[@]}" --seed 9
other 'lr=0.0123' "${b[@]}" --lr 0.0123
other 'momentum=0.5' "${b[@]}" --momentum 0.5
other 'weight_decay=0.25' "${b[@]}" --weight-decay 0.25
other "optimizer 'sgd" "${b[@]}" --optimizer adamw
other "schedule 'cosine" "${b[@]}" --schedule step
other 'label_smoothing=0.25' "${b[@]}" --label-smoothing 0.25
other 'clip_norm=3' "${b[@]}" --clip-norm 3
other 'cutout=4' "${b[@]}" --cutout 4
other 'normalize=0' "${b[@]}" --no-normalize
other "device 'cpu', this run has 'ref'" "${b[@]}" --device ref
other "data 'fake:1x16x16:10:100'" "${b[@]:0:1}" fake:1x16x16:10:101 "${b[@]:2}"
other "model 'mixed', this run has 'lenet5'" lenet5 "${b[@]:1}"
cp mixed.net kept.net
sed -i 's/dropout 0.2/dropout 0.3/' mixed.net
other 'model_hash' "${b[@]}"
mv kept.net mixed.net

# A finished run stays as it is.
rm -rf done1
cp -r whole done1
metrics_of done1 >before
train "${base[@]}" --run done1 --resume auto
equal 'a finished run: exit code, steps' "$code $(field steps)" '0 20'
same_end 'a finished run is not changed' done1 whole
rm -rf done2 done3
train "${base[@]}" -i 8 --run done2
cp -r done2 done3
train "${base[@]}" -i 8 --run done3 --resume auto
equal 'a run finished within an epoch: exit code, accuracy' "$code $(field test_accuracy)" "0 $(field test_accuracy done2/result.json)"
same_end 'a run finished within an epoch is not changed' done3 done2

# More epochs than planned.
train "${base[@]}" --epochs 6 --run done1 --resume auto
equal 'more epochs: exit code, steps' "$code $(field steps)" '0 30'
has 'more epochs: a warning' err 'lockstep: warning: the run was begun for 4 epochs'

# From a checkpoint, or from a whole run, into another run directory.
checkpoint=$(newest_of good)
list good >before
train "${base[@]}" --run moved --resume "$checkpoint"
equal 'resume FILE into another run: exit code, hash' "$code $(field weights_hash)" "0 $(field weights_hash whole/result.json)"
tensors_of "$(newest_of moved)" >a
tensors_of "$(newest_of whole)" >b
same_file 'resume FILE into another run: the same checkpoint' a b
train "${base[@]}" --run moved2 --resume good
if [ $code -eq 0 ]; then
    equal 'resume RUN into another run' "$(field weights_hash) $(metrics_of moved2 | head -n 1 | cut -c 1-11)" \
        "$(field weights_hash whole/result.json) {\"step\": 16"
else
    one_line_error 'resume RUN into another run is refused' 2 good
fi
list good >after
same_file 'resume FILE leaves the old run alone' before after
train "${base[@]}" --run whole --resume "$checkpoint"
one_line_error 'resume FILE into a run that is there' 4 'already holds a run'
train "${base[@]}" --resume nowhere
one_line_error 'resume from nothing' 4 'nowhere'
train "${base[@]}" --resume auto
one_line_error 'resume auto without --run' 2 '--run'

finish
