#!/usr/bin/env bash
# soak.sh LOCKSTEP FOLDER [MINUTES [TRIALS [SECONDS]]]: the long form of the tests of jobs, as `make soak` runs it.
#
#   1. promise.sh      2. faults.sh with TRIALS (20) killed ranks of each kind      3. network.sh, long
#   4. MINUTES (30) of training in which a random rank is killed every SECONDS (60) on average, and starts again each time: it ends
#      with the weights of an unbroken run; memory, open files and /dev/shm do not grow.
#   5. the same with a parameter server, whose workers are killed while it goes on.
# SOAK_PARTS="4 5" in the environment: only these.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
minutes=${3:-30} trials=${4:-20} period=${5:-60}

part() { # WHAT COMMAND...
    local what=$1 code
    shift
    printf '\n== %s\n' "$what"
    "$@"
    code=$?
    if [ $code -eq 77 ]; then skipped "$what"; else equal "$what" $code 0; fi
}
wanted() { [[ " ${SOAK_PARTS:-1 2 3 4 5} " == *" $1 "* ]]; }
if wanted 1; then part promise bash "$dist/promise.sh" "$lockstep" "${2:-none}" "$trials"; fi
if wanted 2; then part "faults, $trials trials" bash "$dist/faults.sh" "$lockstep" "${2:-none}" "$trials"; fi
if wanted 3; then part 'network, long' bash "$dist/network.sh" "$lockstep" "${2:-none}" long; fi

run=$work/soak
args=(lenet5 digits -b 64 --schedule constant --epochs 1000000 --no-eval --checkpoint-every 200 -p 200 --timeout 60 -q)

kib_of() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$1/status" 2>/dev/null; }
files_of() { ls "/proc/$1/fd" 2>/dev/null | wc -l; }
# sample NAME: memory and open files of who trains and of the launcher, into NAME_*
sample() {
    local main
    main=$(main_pid)
    printf -v "$1_kib" %s "$(kib_of "$main")"
    printf -v "$1_files" %s "$(files_of "$main")"
    printf -v "$1_launcher_kib" %s "$(kib_of "$pid")"
    printf -v "$1_launcher_files" %s "$(files_of "$pid")"
    printf -v "$1_shm" %s "$(shm_now | wc -l)"
}
# grows WHAT FIRST LAST LIMIT: in percent
grows() {
    if [ -n "$2" ] && [ -n "$3" ] && [ $(($3 * 100)) -le $(($2 * (100 + $4))) ]; then ok "$1: $2 at first, $3 at last"
    else bad "$1: $2 at first, $3 at last, at most $4 % more were expected"; fi
}
newest_step() { local name; name=$(basename "$(newest_of "$run")" .safetensors); echo $((10#0${name#step-})); }
has_reached() { [ "$(newest_step)" -ge "$1" ]; } # STEP, with a checkpoint
settles() { eventually has_reached $(($(newest_step) + 600)) || bad "it does not get on: $(head -c 300 err.bg)"; } # what grows at first has grown

# soak WHAT WHO RESTART ARGS...: 3 workers, one of whom is killed again and again; each time a line with RESTART is said
soak() {
    local what=$1 who=$2 restart=$3 end n_kills=0 victim steps
    shift 3
    printf '\n== %s minutes, %s: a worker killed every %s s\n' "$minutes" "$what" "$period"
    rm -rf "$run"
    job "${args[@]}" -w 3 --max-restarts 1000000 --run "$run" "$@"
    end=$((SECONDS + minutes * 60))
    eventually has_checkpoint "$run" || bad "no checkpoint: $(head -c 300 err.bg)"
    settles
    sample first
    while [ $SECONDS -lt $end ] && ! is_gone "$pid"; do
        sleep $((1 + RANDOM % (2 * period)))
        victim=$(worker_pid $((RANDOM % 3)))
        if [ -n "$victim" ] && kill -KILL "$victim" 2>/dev/null; then n_kills=$((n_kills + 1)); fi
    done
    eventually all_there || bad "$what: the job did not come back"
    settles
    sample last
    kill -TERM "$pid"
    job_end
    equal "$what: after $n_kills kills and $(grep -c "$restart" err) restarts: exit code" "$code" 75
    grows "$what: $who, KiB" "$first_kib" "$last_kib" 5
    grows "$what: $who, open files" "$first_files" "$last_files" 0
    grows "$what: the launcher, KiB" "$first_launcher_kib" "$last_launcher_kib" 5
    grows "$what: the launcher, open files" "$first_launcher_files" "$last_launcher_files" 0
    grows "$what: things in /dev/shm" $((first_shm + 1)) $((last_shm + 1)) 0
    leaves_nothing "$what" "$run"
    steps=$(field steps)
    note "$steps steps; now the same without a fault"
    equal "$what: weights" "$(field weights_hash)" "$(hash_of "${args[@]}" -i "$steps" --checkpoint-every none)"
}

if wanted 4; then
    main_pid() { rank_pid "$run" 0; }
    worker_pid() { rank_pid "$run" "$1"; }
    all_there() { has_ranks "$run" 3; }
    soak all-reduce 'rank 0' 'the job was lost; restart'
fi
if wanted 5; then
    main_pid() { echo "$pid"; } # the server is the launcher
    worker_pid() { pgrep -P "$pid" -f -- 'train --server' | sed -n "$(($1 + 1))p"; }
    all_there() { [ "$(pgrep -c -P "$pid" -f -- 'train --server')" -eq 3 ]; }
    soak 'parameter server' 'the server' 'started again' --sync ps
fi
finish
