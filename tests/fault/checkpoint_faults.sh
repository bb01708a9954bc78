#!/bin/bash
# checkpoint_faults.sh: a checkpoint is the old one or the new one, whatever happens while it is written.
#
#     tests/fault/checkpoint_faults.sh - BUILD/fault [short|long]      the folder has checkpoint_loop, from checkpoint_loop.c
# test: sanitize
#
# 1. kill:   SIGKILL before each system call of the writer (strace injects it), for each call and each count until it no
#            longer fires. After each: the newest checkpoint is whole and no older than the last one reported as saved, the
#            links lead to whole files, and the next run removes the leftovers and goes on.
# 2. error:  fsync, close, rename, write, ... fail. The failure is reported, the step is not counted as saved, the one before
#            is untouched, no temporary is left.
# 3. order:  what a power cut could lose: content is on disk before the name, the name before anything old is removed.
#
# `short` (the default, about 50 points) is for every build, `long` (over 300) for the night. Exit code 77: no strace here.
set -u

program=${2:?usage: checkpoint_faults.sh - FOLDER [short|long]}/checkpoint_loop
form=${3:-short}
export ASAN_OPTIONS=detect_leaks=0 # the leak checker cannot run under ptrace
n_passed=0
n_failed=0
n_killed=0

if ! command -v strace >/dev/null; then
    echo "skipped: strace is not installed"
    exit 77
fi
if [ ! -x "$program" ]; then
    echo "checkpoint_faults.sh: $program is not a program; build tests/fault/checkpoint_loop.c" >&2
    exit 2
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
base=$work/base    # steps 1 and 2, as every trial finds them
folder=$work/trial # the trial
out=$work/out

pass() { n_passed=$((n_passed + 1)); }
fail() {
    n_failed=$((n_failed + 1))
    echo "FAILED: $*"
    sed 's/^/    /' "$out"
}

# Steps 3 to $1 with the given arguments for strace; leaves the exit code in rc and the last step saved in last.
trial() {
    local to=$1
    shift
    rm -rf "$folder"
    cp -a "$base" "$folder"
    { "$program" write "$folder" 3 "$to" -o "$work/strace" "$@" >"$out"; } 2>"$work/err"
    rc=$?
    last=$(sed -n 's/^saved //p' "$out" | tail -n 1)
    last=${last:-2}
}

has_temporaries() { compgen -G "$folder/*.tmp.*" >/dev/null; }

"$program" write "$base" 1 2 >"$out" || { cat "$out"; exit 1; }
trial 3 -e trace=fsync
if [ $rc = 77 ] || { [ $rc = 0 ] && ! grep -q fsync "$work/strace"; }; then
    echo "skipped: strace cannot attach to a process here (ptrace is not allowed)"
    exit 77
fi
[ $rc = 0 ] || { cat "$out"; exit 1; }

# --- 1. kill ---

# kill_point SYSCALL N TO: returns 1 when the call was made fewer than N times.
kill_point() {
    trial "$3" -e trace="$1" -e inject="$1":signal=KILL:when="$2"
    if [ $rc = 0 ]; then return 1; fi
    local what="kill at $1 number $2"
    if [ $rc != 137 ]; then
        fail "$what: exit code $rc instead of 137"
        return 0
    fi
    n_killed=$((n_killed + 1))
    if ! "$program" check "$folder" "$last" "$3" >>"$out" 2>&1; then
        fail "$what: expected step $last to $3"
    elif ! "$program" write "$folder" 20 20 >>"$out" 2>&1 || ! "$program" check "$folder" 20 20 >>"$out" 2>&1; then
        fail "$what: the next run cannot go on"
    elif has_temporaries; then
        fail "$what: the next run left a temporary"
    else
        pass
    fi
}

calls="openat fallocate write fsync close renameat symlinkat unlinkat newfstatat getdents64 getrandom"
[ "$form" = short ] && to=3 || to=9
for call in $calls; do
    n=1
    while kill_point "$call" $n $to; do n=$((n + 1)); done
done

# The writer's start, counted from the program's first call: most of these come before it has touched the folder.
start_point() {
    rm -rf "$folder"
    cp -a "$base" "$folder"
    touch "$folder/step-00000003.safetensors.tmp.abcdef"
    { strace -f -o "$work/strace" -e trace="$1" -e inject="$1":signal=KILL:when="$2" "$program" write "$folder" 3 3; } \
        >"$out" 2>&1
    rc=$?
    if [ $rc = 0 ]; then return 1; fi
    n_killed=$((n_killed + 1))
    if "$program" check "$folder" 2 3 >>"$out" 2>&1; then pass; else fail "kill at the start's $1 number $2"; fi
}
if [ "$form" != short ]; then
    for call in mkdir faccessat flock readlinkat clone3 unlinkat getdents64 openat; do
        n=1
        while start_point $call $n; do n=$((n + 1)); done
    done
fi
echo "kill: $n_killed points"

# --- 2. errors ---

# error_point SYSCALL ERRNO N TO: returns 1 when the call was made fewer than N times.
error_point() {
    trial "$4" -e trace="$1" -e inject="$1":error="$2":when="$3"
    if ! grep -q INJECTED "$work/strace"; then return 1; fi
    local what="$2 at $1 number $3" step=$((last + 1))
    if [ $rc != 4 ] || ! grep -q "^failed $step: " "$out"; then
        fail "$what: not reported (exit code $rc)"
    elif ! "$program" file "$folder/$(printf step-%08d.safetensors "$last")" "$last" >>"$out" 2>&1; then
        fail "$what: the checkpoint before is damaged"
    elif ! "$program" check "$folder" "$last" "$step" >>"$out" 2>&1; then
        fail "$what: no whole checkpoint"
    elif has_temporaries; then
        fail "$what: a temporary is left"
    else
        pass
    fi
}

# Only the close of the new file must count; the others are of folders and such, only read.
trial 3 -y -e trace=close
n=$(grep -n 'step-.*\.tmp\.' "$work/strace" | head -n 1 | cut -d: -f1)
error_point close EIO "${n:-99}" 3 || fail "the new file was not closed"
[ "$form" = short ] && to=3 || to=5
for pair in fsync:EIO renameat:EIO write:ENOSPC write:EIO fallocate:ENOSPC symlinkat:ENOSPC getrandom:EIO; do
    n=1
    while error_point ${pair%:*} ${pair#*:} $n $to; do
        n=$((n + 1))
        [ "$form" = short ] && [ $n -gt 3 ] && break
    done
    [ $n -gt 1 ] || fail "$pair never fired"
done

# --- 3. order ---

trial 6 -y -e trace=fsync,renameat,unlinkat,symlinkat,write
order=$(awk '
    function fault(text) { print text ": " $0; bad = 1 }
    function name(text) { match(text, /<[^>]*>/); text = substr(text, RSTART + 1, RLENGTH - 2); sub(/.*\//, "", text); return text }
    function step(text) { match(text, /step-[0-9]+\./); return substr(text, RSTART + 5, RLENGTH - 6) + 0 }
    # a temporary is clean when fsynced since it was last written; a name is durable when its folder was fsynced since
    /^write\(.*\.tmp\./        { dirty[name($0)] = 1 }
    /^fsync\(.*\.tmp\..*= 0$/  { dirty[name($0)] = 0; n_file++ }
    /^fsync\(/ && !/\.tmp\./   { n_pending = 0; durable = renamed; n_folder++ }
    /^renameat\(/ {
        split($0, part, "\"")
        if (part[2] ~ /step-/ && !(part[2] in dirty)) fault("renamed, but never seen written")
        if (dirty[part[2]]) fault("renamed before its content was on disk")
        if (part[4] ~ /step-/) renamed = step(part[4])
        n_pending++
        n_rename++
    }
    /^symlinkat\(/ { if (!n_file) fault("link before the file") }
    /^unlinkat\(/ && !/\.tmp\./ {
        n_removed++
        if (n_pending) fault("old checkpoint removed before the new name was on disk")
        if (step($0) > durable - 2) fault("removed one of the last two on disk")
    }
    END {
        if (n_file != 4 || n_folder != 8 || n_rename < 8 || n_removed < 3) {
            print "seen: " n_file " fsync of files, " n_folder " of folders, " n_rename " renames, " n_removed " removals"
            bad = 1
        }
        exit bad
    }' "$work/strace" 2>&1)
if [ $? = 0 ]; then
    pass
else
    echo "$order" >"$out"
    fail "order of the system calls"
fi

echo "$n_passed passed, $n_failed failed"
[ $n_failed = 0 ]
