#!/usr/bin/env bash
# train_io.sh LOCKSTEP [FAULTS [long]]: the n-th open, write, fsync, rename, ... of a training fails. Either the run ends well with the
# same weights (a line of metrics is all that was lost), or it ends with one line and exit code 1, 3 or 4; never by a signal. And
# afterwards --resume auto brings it to the same end, with no temporary left: nothing that had been saved was lost.
#
# `long` goes through every n, the short form through some. Exit code 77: no strace here.
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/../e2e/lib.sh"
form=${3:-short}
export ASAN_OPTIONS=detect_leaks=0 # the leak checker cannot run under ptrace
command -v strace >/dev/null || skip_all "strace is not installed"

tiny=(softmax fake:1x8x8:4:24 -b 8 --shards 2 -t 2 --epochs 3 -p 1 --checkpoint-every 2)
hash_in() { sed -n 's/.*"weights_hash": "\([0-9a-f]*\)".*/\1/p' "$1"; }
strace -f -o trace -e trace=renameat "$lockstep" train "${tiny[@]}" --run whole --json -q >out 2>err </dev/null
grep -q 'step-' trace 2>/dev/null || skip_all "strace cannot follow a process here (ptrace is not allowed)"
hash=$(hash_in out)
if [ ${#hash} -ne 32 ]; then bad "the unbroken run: $(cat err)"; finish; fi

# fault CALL ERROR N: fails when there is no N-th call
fault() {
    local what="$2 at $1 number $3"
    rm -rf run
    { timeout $patience strace -f -o trace -e trace="$1" -e inject="$1":error="$2":when="$3" \
        "$lockstep" train "${tiny[@]}" --run run --json -q >out 2>err </dev/null; } 2>/dev/null
    code=$?
    grep -q INJECTED trace || return 1
    n_faults=$((n_faults + 1))
    if [ $code -eq 127 ] && grep -q 'shared libraries' err; then return 0; fi # before our first line
    case $code in
        0) [ "$(hash_in out)" = "$hash" ] || bad "$what: exit 0, but weights '$(hash_in out)', expected $hash" ;;
        1 | 3 | 4) # a message that could not be written is not there
            if [ "$1" != write ] && [ "$(grep -vc '^lockstep: warning: ' err)" -ne 1 ]; then bad "$what: not one line: $(head -c 500 err)"; fi ;;
        *) bad "$what: exit $code: $(head -c 500 err)" ;;
    esac
    "$lockstep" train "${tiny[@]}" --run run --resume auto --json -q >out 2>err </dev/null
    code=$?
    if [ $code -ne 0 ] || [ "$(hash_in out)" != "$hash" ]; then bad "$what, then resumed: exit $code, '$(hash_in out)': $(head -c 300 err)"; fi
    if compgen -G 'run/checkpoints/*.tmp.*' >/dev/null; then bad "$what, then resumed: a temporary is left"; fi
    return 0
}

# Not mmap: oneDNN 2.6 does not survive a refusal (rundir.sh has limits of memory, which are noticed before).
for pair in openat:EMFILE openat:EIO write:EIO write:ENOSPC fsync:EIO renameat:EIO fallocate:ENOSPC mkdir:EACCES mkdirat:EACCES flock:ENOLCK \
    symlinkat:EIO unlinkat:EIO ftruncate:EIO clone3:EAGAIN close:EIO; do
    call=${pair%:*} error=${pair#*:} n=1 n_faults=0 before=$failed
    # The first opens and closes are the dynamic loader's, the last ones ours.
    while fault $call $error $n && [ $n -lt 400 ]; do
        if [ "$form" = long ]; then n=$((n + 1)); elif [ $n -lt 4 ]; then n=$((n + 1)); else n=$((n + n / 3 + 1)); fi
    done
    if [ $n_faults -eq 0 ]; then note "$pair: never called"; elif [ "$failed" -eq "$before" ]; then ok "$pair: $n_faults points"; fi
done
finish
