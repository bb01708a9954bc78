# shellcheck shell=bash
# lib.sh: what the end-to-end scripts share. Sourced with the script's own arguments: source "$(dirname "$0")/lib.sh"
#
# After it: $lockstep is the program, the working directory is a temporary folder that goes at the end together with every
# process begun by `background`. It lies in $TMPDIR, which ctest sets to a folder of the build, else in that folder; TMPDIR is the
# folder itself from then on, so that what other programs leave (mpirun, valgrind) goes with it. A check is `ok TEXT` or `bad TEXT`; the script ends with `finish`, which prints
# "N passed, M failed" and gives the exit code. `skip_all TEXT` ends it with 77.
set -uo pipefail
# Under nohup SIGHUP is ignored, also by every program a test starts, and a shell cannot take that back itself.
if [ $((16#$(sed -n 's/^SigIgn:\t*//p' /proc/$$/status) & 1)) = 1 ]; then exec env --default-signal=HUP bash "$0" "$@"; fi
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd) || exit 2
lockstep=$(realpath -- "${1:?usage: $0 path/to/lockstep}") || exit 2
[ -x "$lockstep" ] || { echo "$0: $lockstep is not a program" >&2; exit 2; }
scratch=${TMPDIR:-$(dirname "$lockstep")/t}
mkdir -p "$scratch" && work=$(mktemp -d "$scratch/XXXXXX") || exit 2
export TMPDIR=$work XDG_CACHE_HOME=$work/.cache
cd "$work" || exit 2
passed=0 failed=0
pids=() mounts=()
export LC_ALL=C XDG_CACHE_HOME=$work/cache
unset LOCKSTEP_FAIL_ALLOC

clean_up() {
    local one
    [ "$BASHPID" = $$ ] || return # a child that gets a signal before it has become another program
    for one in ${pids[@]+"${pids[@]}"}; do kill -KILL "$one" 2>/dev/null; done
    cd / || return
    for one in ${mounts[@]+"${mounts[@]}"}; do umount "$one" 2>/dev/null || umount -l "$one" 2>/dev/null; done
    chmod -R u+w "$work" 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT

ok() { passed=$((passed + 1)); printf 'ok: %s\n' "$*"; }
bad() { failed=$((failed + 1)); printf 'FAILED: %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
skip_all() { printf 'skipped: %s\n' "$*"; exit 77; }
skipped() { printf 'skipped: %s\n' "$*"; }
finish() {
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

# equal WHAT GOT EXPECTED
equal() {
    if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: got '$2', expected '$3'"; fi
}

# differs WHAT A B: both there, and not the same
differs() {
    if [ -n "$2" ] && [ -n "$3" ] && [ "$2" != "$3" ]; then ok "$1"; else bad "$1: '$2' and '$3' should differ"; fi
}

# same_file WHAT A B
same_file() {
    if cmp -s "$2" "$3"; then ok "$1"; else bad "$1: $2 and $3 differ: $(diff "$2" "$3" | head -n 5)"; fi
}

# has WHAT FILE PART
has() {
    if grep -qF -- "$3" "$2"; then ok "$1"; else bad "$1: '$3' is not in: $(head -c 600 "$2")"; fi
}

# field KEY [FILE]: a value of a JSON object in a file (default: out)
field() {
    python3 -c 'import json,sys; print(json.load(open(sys.argv[2]))[sys.argv[1]])' "$1" "${2:-out}" 2>/dev/null
}

# train ARGS...: trains quietly with --json; leaves out, err, code
train() {
    "$lockstep" train "$@" --json -q >out 2>err </dev/null
    code=$?
}

# hash_of ARGS...: trains, and prints the weights' hash
hash_of() {
    train "$@"
    if [ "$code" -eq 0 ]; then field weights_hash; else echo "exit code $code: $(head -c 300 err)"; fi
}

# split_of RUN: how far the parts of its time are from the whole, and which are below zero; nothing when all is well
split_of() {
    python3 - "$1/result.json" 2>&1 <<'EOF'
import json, sys
result = json.load(open(sys.argv[1]))
parts, total, steps = result["seconds"], result["total_seconds"], result["train_seconds"]
hidden = parts.pop("hidden") # beside the parts
in_steps = sum(parts[k] for k in ("load", "compute", "communicate", "wait", "update"))
if abs(sum(parts.values()) - total) > 0.01 * total: print("parts make", sum(parts.values()), "of", total, parts)
if abs(in_steps - steps) > 0.01 * steps: print("parts of steps make", in_steps, "of", steps, parts)
if min(parts.values()) < 0 or hidden < 0: print("below zero:", parts, hidden)
if parts["compute"] <= 0 or parts["update"] <= 0 or parts["setup"] <= 0: print("not measured:", parts)
if hidden + parts["communicate"] > steps: print("sums travelled for longer than the steps took:", hidden, parts, steps)
EOF
}

# metrics_of RUN: metrics.jsonl without what depends on the clock
# small_net FILE: a network that has everything a resume could lose: statistics, dropout, weights of two kinds
small_net() {
    printf '%s\n' "model net" "input any" "conv conv1 8 5" "bn bn1" relu "maxpool 2" "dropout 0.1" flatten "linear fc classes" >"$1"
}

metrics_of() { sed 's/, "images_per_second": [^}]*}$/}/' "$1/metrics.jsonl"; }

# tensors_of CHECKPOINT: hashes of names, shapes and bytes of its tensors, and the metadata that do not depend on the clock
tensors_of() { python3 "$here/lib.py" tensors "$1"; }

newest_of() { ls "$1"/checkpoints/step-*.safetensors 2>/dev/null | tail -n 1; }

# one_line_error WHAT CODE PART: after a command that left code, out and err: the exit code is CODE, and stderr is one line
# "lockstep: ...PART..." besides warnings
one_line_error() {
    local lines
    lines=$(grep -v '^lockstep: warning: ' err)
    if [ "$code" -ne "$2" ]; then bad "$1: exit code $code, expected $2: $(head -c 400 err)"
    elif [ "$(printf '%s\n' "$lines" | wc -l)" -ne 1 ] || [[ $lines != 'lockstep: '* ]]; then bad "$1: not one line: $(head -c 600 err)"
    elif [[ $lines != *"$3"* ]]; then bad "$1: \"$lines\" lacks \"$3\""
    else ok "$1: $lines"
    fi
}

# background ARGS...: starts `lockstep train ARGS --json -q`; its number in pid, its output in out.bg and err.bg
background() {
    "$lockstep" train "$@" --json -q >out.bg 2>err.bg </dev/null &
    pid=$!
    pids+=("$pid")
}

# eventually COMMAND...: tries the command every 10 ms until it succeeds, after 200 times every 50 ms: to look has a price, too. Tests wait for events, not for seconds, because a machine may
# be as busy as it likes; it fails only when nothing can be expected any more.
patience=300
eventually() {
    local end=$((SECONDS + patience)) n=0
    until "$@"; do
        if [ $SECONDS -ge $end ]; then return 1; fi
        if [ $((n++)) -lt 200 ]; then sleep 0.01; else sleep 0.05; fi
    done
}

# children_ms: the CPU time of all processes that this script has waited for, in steps of 10 ms. What a test calls quick is measured with
# it: the clock on the wall runs on when others have the processor.
children_ms() {
    local stat
    read -r -a stat <"/proc/$$/stat"
    echo $(((stat[15] + stat[16]) * 1000 / $(getconf CLK_TCK)))
}

is_gone() { # PID: it has ended; a child that nobody waited for yet counts
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    stat=${stat##*) }
    [[ $stat == Z* || $stat == X* ]]
}
is_state() { # PID LETTERS: the state in /proc is one of them
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    stat=${stat##*) }
    [[ $2 == *"${stat:0:1}"* ]]
}

has_lines() { [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }

# Programs with AddressSanitizer reserve terabytes of addresses: no limit of theirs then.
is_sanitized() { grep -q __asan_init "$lockstep"; }
until_true() { shift; eventually "$@"; } # its older name, with a number of seconds that nobody reads
