#!/usr/bin/env bash
# cli.sh LOCKSTEP: the command line as a person meets it: wrong words, help, versions, pipes. Trains nothing for long.
# Prints "N passed, M failed"; exit 1 if anything failed.
# test: sanitize
set -uo pipefail
lockstep=$(realpath -- "${1:?usage: cli.sh path/to/lockstep}") || exit 2
work=$(mktemp -d) || exit 2
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 2
passed=0 failed=0

ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); printf 'FAILED: %s\n' "$*"; }

# refused CODE PART ARGS...: exit code CODE (a pattern), nothing on stdout, one line "lockstep: ...PART..." on stderr
refused() {
    local code=$1 part=$2 got
    shift 2
    "$lockstep" "$@" >out 2>err </dev/null
    got=$?
    if ! [[ $got =~ ^($code)$ ]]; then bad "lockstep $*: exit $got, expected $code: $(head -c 300 err)"; return; fi
    if [ -s out ]; then bad "lockstep $*: wrote to stdout: $(head -c 200 out)"; return; fi
    if [ "$(wc -l <err)" -ne 1 ] || ! grep -q '^lockstep: ' err; then bad "lockstep $*: not one line: $(head -c 500 err)"; return; fi
    if ! grep -qF -- "$part" err; then bad "lockstep $*: \"$(cat err)\" lacks \"$part\""; return; fi
    ok
}

# shows PART ARGS...: exit code 0, PART on stdout, nothing on stderr
shows() {
    local part=$1 got
    shift
    "$lockstep" "$@" >out 2>err </dev/null
    got=$?
    if [ "$got" -ne 0 ]; then bad "lockstep $*: exit $got: $(head -c 300 err)"; return; fi
    if [ -s err ]; then bad "lockstep $*: wrote to stderr: $(head -c 300 err)"; return; fi
    if ! grep -qF -- "$part" out; then bad "lockstep $*: stdout lacks \"$part\": $(head -c 300 out)"; return; fi
    ok
}

is_json() {
    local got
    "$lockstep" "$@" >out 2>err </dev/null
    got=$?
    if [ "$got" -ne 0 ]; then bad "lockstep $*: exit $got: $(head -c 300 err)"; return; fi
    if ! python3 -c 'import json,sys; assert isinstance(json.load(open("out")), dict)' 2>/dev/null; then
        bad "lockstep $*: not a JSON object: $(head -c 200 out)"; return
    fi
    ok
}

# --- wrong words: exit 2, one line ---
refused 2 'a command is missing'
refused 2 "did you mean 'train'?" trian
refused 2 "unknown command 'xyzzy'" xyzzy
refused 2 "unknown command 'dance'" dance
refused 2 'a command comes first' --epochs 3
refused 2 "unknown command ''" ''
refused 2 'unknown command' $'two\nlines'
refused 2 'usage: lockstep train MODEL DATA' train
refused 2 'an argument is missing' train lenet5
refused 2 "unexpected argument 'more'" train lenet5 digits more
refused 2 'did you mean --epochs?' train lenet5 digits --epoch 3
refused 2 'unknown option --xyzzy' train lenet5 digits --xyzzy
refused 2 'unknown option -Z' train lenet5 digits -Z
refused 2 'whole number' train lenet5 digits -b 0
refused 2 'whole number' train lenet5 digits -b64x
refused 2 'whole number' train lenet5 digits --epochs 1e3
refused 2 'expected a number' train lenet5 digits --lr nan
refused 2 'expected a number' train lenet5 digits --lr -1
refused 2 'needs a value' train lenet5 digits --lr
refused 2 'needs a value' train lenet5 digits --run --json
refused 2 'takes no value' train lenet5 digits --json=yes
refused 2 'expected one of sgd, adamw' train lenet5 digits --optimizer sdg
refused 2 'give one' train lenet5 digits --hosts a,b -w 2
refused 2 'expected' train lenet5 digits --sync pss
refused 2 'expected names apart by commas' train lenet5 digits --hosts a,,b --sync ps
refused 2 '--mpi-args does not go with --sync ps' train lenet5 digits --nodes 2 --sync ps --mpi-args -v
refused 2 'computes in f32 only' train lenet5 digits --precision bf16
refused 2 'this build has' train lenet5 digits --device abacus
refused 2 'belongs to: train' eval x --lr 3
refused 2 'expected list, fetch, info or check' data xyzzy
refused 2 'did you mean list?' data lst
refused 2 'needs a data set' data info
refused 2 'unknown command' help xyzzy
refused 2 'expected one of' help --completion csh
refused 2 'fake:' bench lenet5 mnist
refused 2 "$(printf 'x%.0s' {1..40})" train lenet5 digits "--$(printf 'x%.0s' {1..40})"
refused 2 '' train lenet5 digits "--$(head -c 5000 /dev/zero | tr '\0' x)"

# --- unknown models, data, files ---
refused 2 'lenet5' train nosuchmodel digits
refused 2 'lenet5' models nosuchmodel
refused 2 'lenet5' bench nosuchmodel
refused '2|3' 'nosuchdata' train lenet5 nosuchdata
refused '2|3' 'nosuchdata' data info nosuchdata
refused '[123]' 'nofile.net' train ./nofile.net digits
refused 4 'nowhere' eval nowhere
refused 4 'nowhere' inspect nowhere
refused 4 'no manifest.json' inspect .
printf 'not a checkpoint' >bad.safetensors
refused 4 'bad.safetensors' inspect bad.safetensors
mkdir -p brokenrun && printf '{' >brokenrun/manifest.json
refused 4 'brokenrun/manifest.json' inspect brokenrun
if [ -n "$(ls -d runs 2>/dev/null)" ] && [ -n "$(ls -A runs)" ]; then bad "a refused train left runs/: $(ls runs)"; else ok; fi

# --- help and texts ---
shows 'Commands:' help
shows 'Commands:' --help
shows 'Commands:' -h
for command in train eval bench plan models data inspect doctor help; do
    shows "Usage: lockstep $command" "$command" --help
    shows "Usage: lockstep $command" help "$command"
    shows 'Exit codes:' "$command" -h
done
shows 'GLOBAL batch' train --help
shows 'lockstep ' --version
shows 'backend ref' --version
shows 'zlib' -V
shows '.TH LOCKSTEP 1' help --man
shows 'complete -o' help --completion bash
shows 'complete -c lockstep' help --completion fish
"$lockstep" help --completion bash >completion.bash
if bash -n completion.bash; then ok; else bad "bash completion does not parse"; fi
mkdir -p runs/first
# completes 'WORDS... LAST' EXPECTED: what Tab offers after the words
completes() {
    local got
    # shellcheck disable=SC2016
    got=$(bash -c 'source ./completion.bash; eval "COMP_WORDS=($1)"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lockstep; echo "${COMPREPLY[*]}"' - "$1")
    if [ "$got" = "$2" ]; then ok; else bad "completion of $1 gives '$got', expected '$2'"; fi
}
completes 'lockstep train --optimizer ""' 'sgd adamw'
completes 'lockstep train len' lenet5
completes 'lockstep train lenet5 mni' mnist
completes 'lockstep train --batch-size 64 lenet5 mni' mnist
completes 'lockstep train lenet5 len' ''
completes 'lockstep bench -b 8 soft' softmax
completes 'lockstep eval fir' runs/first
completes 'lockstep inspect runs/f' runs/first
completes 'lockstep data fe' fetch
completes 'lockstep data fetch cif' cifar10
completes 'lockstep help mod' models
completes 'lockstep train lenet5 digits --resume au' auto
completes 'lockstep train lenet5 digits --nest' '--nesterov'
if command -v groff >/dev/null; then
    "$lockstep" help --man | groff -man -Tascii -P-cbou -ww >man.txt 2>man.err
    if [ ! -s man.err ] && grep -q 'batch-size' man.txt; then ok; else bad "man page: $(head -c 300 man.err)"; fi
fi

# --- tables ---
shows 'lenet5' models
shows 'lenet5' models lenet5
shows 'digits' data list
shows '10 classes' data info digits
shows '100 images of 3x8x8' data info fake:3x8x8:10:100
shows 'cores' doctor
is_json models --json
is_json doctor --json
is_json data info digits --json

# --- stdout that cannot be written ---
if [ -w /dev/full ]; then
    "$lockstep" help >/dev/full 2>err
    got=$?
    if [ $got -eq 1 ] && grep -q 'stdout' err; then ok; else bad "help >/dev/full: exit $got, $(cat err)"; fi
fi
# A reader that leaves early has seen what he wanted: no word, no failure, no death by a signal.
(
    until [ -e left ]; do sleep 0.01; done
    "$lockstep" train --help 2>err
    echo $? >code
) | { exec </dev/null; touch left; }
got=$(cat code)
if [ "$got" -eq 0 ] && [ ! -s err ]; then ok; else bad "closed pipe: exit $got, expected 0 and no word: $(cat err)"; fi
line=$("$lockstep" help train 2>/dev/null | head -n 1)
if [[ $line == 'lockstep train'* ]]; then ok; else bad "help train | head -n 1 gives '$line'"; fi
"$lockstep" plan resnet18 2>err | head -n 1 >/dev/null
if [ ! -s err ]; then ok; else bad "plan | head complains: $(cat err)"; fi
# What can be read by programs.
for words in 'data list' 'plan lenet5' 'doctor'; do
    # shellcheck disable=SC2086
    if "$lockstep" $words --json 2>err | python3 -c 'import json, sys; json.load(sys.stdin)'; then ok; else bad "$words --json: $(cat err)"; fi
done
if "$lockstep" data list | grep -q '^svhn+extra'; then ok; else bad 'svhn+extra is not listed'; fi
# Closed from the start.
"$lockstep" --version >&- 2>err
got=$?
if [ $got -eq 1 ]; then ok; else bad "--version with stdout closed: exit $got"; fi

# --- run directories that cannot be written, or not by us ---
printf x >file
refused 4 'file' train lenet5 fake:1x28x28:10:64 --run file -i 1 -q
mkdir -p held && printf '{}' >held/manifest.json
refused 4 'already holds a run' train lenet5 fake:1x28x28:10:64 --run held -i 1 -q

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
