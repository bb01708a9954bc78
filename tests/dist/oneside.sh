#!/usr/bin/env bash
# oneside.sh LOCKSTEP [FOLDER [long]]: something fails on one rank of a job: a write, an fsync, an allocation, shared memory, the disk.
#
#   bounded    the job ends at once, not after the timeout: the other ranks are told
#   told       the cause is printed once, with the path, by whoever knows it
#   exit code  1, 3 or 4, as it would be alone; never 6, never a signal. Or 0, if it could be spared, with the same weights
#   left       no process, nothing in /dev/shm, no temporary; --resume auto brings the run to the same end
# Each on one machine of two ranks and on two machines of one. `long` takes every n, the short form some.
# test: timeout=3600
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
form=${3:-short}
if [ "$form" = long ]; then every=1; else every=0; fi # each n, or some
timeout=900 # far away: who waits for it has failed
bound=300000
preload=$(dirname "$lockstep")/fault/preload_fail.so
[ -e "$preload" ] || skip_all "$preload is not built"
tiny=(softmax fake:1x8x8:4:48 -b 8 --shards 4 --epochs 3 -p 1 --checkpoint-every 2 --timeout "$timeout" -q -w 2)
parts 'one machine' 'two machines'
layout=$part
reference=$(hash_of "${tiny[@]}" --run "$work/whole")
if [ ${#reference} -ne 32 ]; then bad "the undisturbed run: $reference"; finish; fi

# shape NAME: how the two ranks sit, in words for ./as
shape() { if [ "$1" = 'two machines' ]; then echo 'machines 1 --'; fi; }

# ended WHAT PART MS: after job_end; leaves is_spared
ended() {
    local lines
    lines=$(grep '^lockstep: ' err | grep -v '^lockstep: warning: ') # Open MPI may have something to say of a rank that is gone
    is_spared=false
    if [ "$3" -gt $bound ]; then bad "$1: ended after $3 ms only: $(head -c 300 err)"; fi
    case $code in
        0)
            is_spared=true
            if [ "$(field weights_hash)" != "$reference" ]; then bad "$1: exit 0, but other weights"; fi ;;
        1 | 3 | 4)
            if [ "$(grep -c . <<<"$lines")" -ne 1 ]; then bad "$1: not said once: $(head -c 600 err)"
            elif [[ $lines != *"$2"* ]]; then bad "$1: \"$lines\" lacks \"$2\""; fi ;;
        *) bad "$1: exit code $code: $(head -c 600 err)" ;;
    esac
    if ! eventually nothing_runs "$run"; then bad "$1: still runs: $(pgrep -af -- "--run $run( |/|\$)" | cut -c 1-200)"; fi
}

# resumed WHAT: what was saved is there, and the run goes on to the same end
resumed() {
    local got
    got=$(hash_of "${tiny[@]}" --run "$run" --resume auto)
    if [ "$got" != "$reference" ]; then bad "$1, resumed: $got"; fi
    if compgen -G "$run/checkpoints/*.tmp.*" >/dev/null; then bad "$1, resumed: a temporary is left"; fi
}

# attempt WHAT PART RANK SHAPE NAME=VALUE...: a job in which one rank has these variables
attempt() {
    local what=$1 part=$2 rank=$3 words variable start
    words=$(shape "$4")
    shift 4
    for variable in "$@"; do words+=" with $rank $variable --"; done
    run=$work/run
    rm -rf "$run" fired
    start=$(now_ms)
    LOCKSTEP_MPI=$mpi job "${tiny[@]}" --run "$run" --mpi-args "$as $words"
    job_end
    ended "$what" "$part" $(($(now_ms) - start))
}

# mpi_of I: Open MPI's mpirun takes a second to end a job in which a rank has failed, so it gets few of the jobs
mpi_of() { if [ "$1" -eq 0 ]; then echo "${mpis[-1]}"; else echo "${mpis[0]}"; fi; }

# --- files of the chief ---

# faults CALL ERRNO PART PLACE RANK SHAPE: the n-th call and all after it, for n = 1, 2, ... until none is left
faults() {
    local what="$1 fails with $2 on rank $5, $6" n n_faults=0 before=$failed mpi
    for ((n = 1; n < 200; n = every || n < 3 ? n + 1 : n + n)); do
        mpi=$(mpi_of $((n == 2)))
        attempt "$what, number $n" "$3" "$5" "$6" "LD_PRELOAD=$preload" "LOCKSTEP_TEST_FAIL=$1:$2:$n:$4:$work/fired"
        if [ ! -e fired ]; then break; fi
        n_faults=$((n_faults + 1))
        if [ $n -eq 2 ] || [ $every -eq 1 ]; then resumed "$what, number $n"; fi
    done
    if [ $n_faults -eq 0 ]; then note "$what: never called"
    elif [ "$failed" -eq "$before" ]; then ok "$what: $n_faults points"; fi
}
ENOSPC=28 EIO=5 EACCES=13 EMFILE=24 ENOMEM=12
few=("write:$ENOSPC" "fsync:$EIO" "open:$EMFILE")
more=("write:$EIO" "rename:$EIO" "fallocate:$ENOSPC" "mkdir:$EACCES" "ftruncate:$EIO" "flock:$EIO")
if [ "$layout" = 'two machines' ] && [ $every -eq 0 ]; then more=(); fi
for one in "${few[@]}" "${more[@]}"; do faults "${one%:*}" "${one#*:}" '' "$work/run" 0 "$layout"; done
if [ "$layout" = 'one machine' ]; then # Memory that the ranks of a machine share: the leader asks for it.
    faults memfd_create $EMFILE '' lockstep 0 "$layout"
    faults ftruncate $ENOMEM 'shared memory of' memfd 0 "$layout"
fi

# --- allocations, on either rank ---
allocations() { # RANK SHAPE
    local what="an allocation fails on rank $1, $2" n n_refused=0 n_spared=0 before=$failed mpi i=0
    for ((n = 1; n < 100000; n = every ? n + 1 : 2 * n + 1)); do
        mpi=$(mpi_of $((i++ % 3 == 0)))
        attempt "$what, number $n" memory "$1" "$2" LOCKSTEP_FAIL_ALLOC="$n"
        if ! $is_spared; then n_refused=$((n_refused + 1)) n_spared=0
        elif [ $((++n_spared)) -ge 2 ]; then break; fi
    done
    if [ $n_refused -lt 5 ]; then bad "$what: only $n_refused times"
    elif [ "$failed" -eq "$before" ]; then ok "$what: $n_refused points"; fi
}
allocations 0 "$layout"
allocations 1 "$layout"

# --- in the middle of a long training ---
cat >net.net <<'END'
model net
input any
conv conv1 8 5
relu
maxpool 2
flatten
linear fc classes
END
endless=(./net.net fake:1x28x28:10:640 -b 32 --shards 8 --epochs 100000 --no-eval --checkpoint-every 20 -p 1 --timeout "$timeout" -q -w 2)

# breaks WHAT CODE PART SHAPE: what the function `break_it` does to a job in full swing
breaks() {
    local what=$1 start
    start=$(now_ms)
    break_it
    job_end
    ended "$what" "$3" $(($(now_ms) - start))
    equal "$what: exit code, $(grep -v '^lockstep: warning: ' err | cut -c 1-200)" "$code" "$2"
    leaves_nothing "$what" "$run"
}
run=$work/deleted
job "${endless[@]}" --run "$run" --mpi-args "$as $(shape "$layout")"
eventually has_checkpoint "$run" || bad "no checkpoint: $(head -c 300 err.bg)"
is_deleted() { rm -rf "$run" 2>/dev/null && [ ! -e "$run" ]; } # a checkpoint may come in between
break_it() { eventually is_deleted; }
breaks "the run directory is deleted, $layout" 4 "$run"

# The directory is held open: under another name it is still the same.
job "${endless[@]}" --run "$run" --mpi-args "$as $(shape "$layout")"
eventually has_checkpoint "$run" || bad "no checkpoint: $(head -c 300 err.bg)"
mv "$run" "$run.moved"
eventually has_lines "$run.moved/metrics.jsonl" $(($(wc -l <"$run.moved/metrics.jsonl") + 30))
kill -TERM "$pid"
job_end
equal "the run directory is moved, $layout: exit code" "$code" 75
if [ "$(sed -n 's/.*step-0*\([0-9]*\)\..*/\1/p' <<<"$(newest_of "$run.moved")")" = "$(field steps)" ]; then ok "$layout: the last checkpoint went along"
else bad "$layout: the last checkpoint is not there: $(newest_of "$run.moved"), $(cat err)"; fi
rm -rf "$run" "$run.moved"

# As root: a disk and a /dev/shm that are too small.
mkdir disk
if mount -t tmpfs -o size=400k none disk 2>/dev/null; then
    mounts+=("$work/disk")
    run=$work/disk/full
    job "${endless[@]}" --keep 1000 --checkpoint-every 5 --run "$run" --mpi-args "$as $(shape "$layout")"
    break_it() { :; }
    breaks "the disk fills, $layout" 4 'No space left on device'
    if [ -n "$(newest_of "$run")" ] && "$lockstep" inspect "$run" >/dev/null 2>err; then ok "the disk fills, $layout: the earlier checkpoint loads"
    else bad "the disk fills, $layout: no good checkpoint is left: $(head -c 300 err)"; fi
    rm -rf "$run"
else skipped 'a full disk: no mount is allowed'; fi

if [ "${LOCKSTEP_TEST_SHM:-0}" = 1 ]; then
    finite=(./net.net fake:1x28x28:10:640 -b 32 --shards 8 -i 100 --no-eval --checkpoint-every none --rescue-every 5 --max-restarts 2 --timeout "$timeout" -q -w 2)
    reference=$(hash_of "${finite[@]}" --run "$work/room")
    mount -o remount,size=64k /dev/shm
    run=$work/noroom
    rm -rf "$run"
    job "${finite[@]}" --run "$run" --mpi-args "$as $(shape "$layout")"
    job_end
    equal "no room for copies in memory, $layout: exit code" "$code" 0
    equal "no room for copies in memory, $layout: weights" "$(field weights_hash)" "$reference"
    has "no room for copies in memory, $layout: said" err 'keeps no copies in memory'
    equal "no room for copies in memory, $layout: once per machine" "$(grep -c 'keeps no copies' err)" "$([ "$layout" = 'one machine' ] && echo 1 || echo 2)"
    leaves_nothing "no room for copies in memory, $layout" "$run"
    mount -o remount,size=50% /dev/shm
else skipped 'a small /dev/shm: not root'; fi
finish
