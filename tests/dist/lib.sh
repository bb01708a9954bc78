# shellcheck shell=bash
# lib.sh: what the tests of jobs share, on top of ../e2e/lib.sh. Sourced with the script's own arguments.
#
# A job is `lockstep train -w N ...`; its ranks are found by their run directory and by the number mpirun gave them. What a single
# rank is to do otherwise (another machine's name, other arguments, slower, dead at a moment) is done by ./as, a wrapper that
# mpirun starts in front of the program: --mpi-args "$PWD/as WHAT RANK ...". It is made here, so that nothing is installed.
#
# As root the script runs with a /dev/shm of its own, so that what is found there is ours, and a /run of its own, so that the network
# namespaces of ./netns are gone with the script, however it ends. (Not where / is no mount point, as in a chroot.)
if [ -z "${LOCKSTEP_TEST_SHM:-}" ] && unshare -m true 2>/dev/null; then
    # shellcheck disable=SC2016 # the inner shell expands it
    LOCKSTEP_TEST_SHM=1 exec unshare -m bash -c '
        mount -t tmpfs none /dev/shm && mount -t tmpfs none /run || LOCKSTEP_TEST_SHM=0; exec bash "$@"' - "$0" "$@"
fi
dist=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd) || exit 2
programs=$(realpath -- "${2:-/nonexistent}")
source "$dist/../e2e/lib.sh"
script=$dist/$(basename -- "$0")
arguments=("$lockstep" "$programs" "${@:3}")
unset LOCKSTEP_MACHINE LOCKSTEP_MPI LOCKSTEP_RSH LOCKSTEP_PLUGINS LOCKSTEP_TERMINAL
command -v python3 >/dev/null || skip_all "python3 is not installed"

# need_mpi: ends the script, skipped, where this build has no MPI or the machine no mpirun
need_mpi() {
    local mpi
    mpis=()
    for mpi in openmpi mpich; do
        if [ -e "$(dirname "$lockstep")/lockstep-$mpi.so" ] && command -v "mpirun.$mpi" >/dev/null; then mpis+=("$mpi"); fi
    done
    if [ ${#mpis[@]} -eq 0 ] && [ -e "$(dirname "$lockstep")/lockstep-openmpi.so" ] && command -v mpirun >/dev/null; then
        mpis=(openmpi)
    fi
    [ ${#mpis[@]} -gt 0 ] || skip_all "no MPI here: this build has no plug-in for it, or mpirun is not installed"
    export LOCKSTEP_MPI=${mpis[0]}
    note "MPI: ${mpis[*]}"
}
has_mpi() { [[ " ${mpis[*]} " == *" $1 "* ]]; }

# parts NAME...: most of a job's time is waiting, so a script in several parts runs them at the same time: each is this script again, with
# a folder and a /dev/shm of its own and its name in $part. Returns only there; here it ends with all their results.
parts() {
    local one numbers=() i=0 status
    part=${LOCKSTEP_TEST_PART:-}
    if [ -n "$part" ]; then return; fi
    for one in "$@"; do
        env -u LOCKSTEP_TEST_SHM LOCKSTEP_TEST_PART="$one" TMPDIR="$work" bash "$script" "${arguments[@]}" >"part $one" 2>&1 </dev/null &
        numbers+=($!)
        pids+=($!)
    done
    for one in "$@"; do
        wait "${numbers[i++]}"
        status=$?
        note "--- $one ---"
        cat "part $one"
        passed=$((passed + $(grep -c '^ok: ' "part $one"))) failed=$((failed + $(grep -c '^FAILED: ' "part $one")))
        if [ $status -ne 0 ] && ! grep -q '^FAILED: ' "part $one"; then bad "the part $one ended with exit code $status"; fi
    done
    finish
}

now_ms() { local t=$EPOCHREALTIME; echo $((${t%.*} * 1000 + 10#${t#*.} / 1000)); }

# --- the ranks of a job ---

# ranks_of RUN: "rank pid" for each live rank of the job that writes into RUN, by rank
ranks_of() {
    local pid rank
    for pid in $(pgrep -f -- "--run $1( |/|\$)"); do
        rank=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n 's/^\(OMPI_COMM_WORLD\|PMI\)_RANK=//p' | head -n 1)
        # Between fork and exec a process looks like its parent; a wrapper is not the program yet.
        [ -n "$rank" ] && [ "/proc/$pid/exe" -ef "$lockstep" ] && echo "$rank $pid"
    done | sort -n
}
rank_pid() { ranks_of "$1" | sed -n "s/^$2 //p" | head -n 1; } # RUN RANK
has_ranks() { [ "$(ranks_of "$1" | wc -l)" -eq "$2" ]; }         # RUN N
has_checkpoint() { [ -n "$(newest_of "$1")" ]; }                 # RUN
nothing_runs() { [ -z "$(pgrep -f -- "--run $1( |/|\$)")" ]; }   # RUN: neither ranks nor mpirun nor the launcher

# leaves_nothing WHAT RUN: no process of the job, nothing of it in /dev/shm
leaves_nothing() {
    local left
    if eventually nothing_runs "$2"; then
        left=$(comm -13 shm.before <(shm_now))
        if [ -z "$left" ]; then ok "$1: no process and nothing in /dev/shm is left"; else bad "$1: left in /dev/shm: $left"; fi
    else
        bad "$1: still runs: $(pgrep -af -- "--run $2( |/|\$)" | cut -c 1-200)"
        pkill -KILL -f -- "--run $2( |/|\$)"
    fi
}
shm_now() { if [ "${LOCKSTEP_TEST_SHM:-0}" = 1 ]; then find /dev/shm -mindepth 1 -printf '%f\n' | sort; fi; }
shm_now >shm.before

# Everything of ours goes at the end, whatever happened: all our run directories are below $work.
clean_up_jobs() {
    [ "$BASHPID" = $$ ] || return
    pkill -CONT -f -- "--run $work/" 2>/dev/null
    pkill -KILL -f -- "--run $work/" 2>/dev/null
    eventually nothing_runs "$work/.*" # they may write there until then
    clean_up
}
trap clean_up_jobs EXIT

# job ARGS...: starts `lockstep train ARGS --json`; pid, out.bg, err.bg. The run directory must be given in full: --run "$work/name"
job() {
    "$lockstep" train "$@" --json >out.bg 2>err.bg </dev/null &
    pid=$!
    pids+=("$pid")
}

# job_end: waits for it, but not for ever; leaves code (124: it did not end)
job_end() {
    if eventually is_gone "$pid"; then
        wait "$pid"
        code=$?
    else
        code=124
        kill -KILL "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    fi
    cp out.bg out
    cp err.bg err
}

# --- ports ---
# free_port [ADDRESS]: leaves port, of 127.0.0.1 or ADDRESS, which nobody else is given while this script runs. One that is only free at the moment may be the
# one that a node of another test is given for its own ears before our rank 0 comes, and then a whole job waits in vain. So a socket that does
# not listen holds it; who asks for that very port may listen beside it.
free_port() {
    port=
    exec {held}< <(exec python3 -c '
import os, signal, socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], 0))
print(s.getsockname()[1], os.getpid(), flush=True)
signal.pause()' "${1:-127.0.0.1}")
    read -r port holder <&"$held"
    pids+=("$holder")
    exec {held}<&-
}

# --- a parameter server ---
# What happens to a training may take as long as it likes, so such a one does not end by itself: it is ended by a signal, and has the weights
# of one process after as many steps.
unending="lenet5 digits -b 64 --no-eval --no-record --seed 5 --schedule constant --epochs 100000"
value() { python3 -c 'import json,sys; r=json.load(open(sys.argv[2])); print(eval(sys.argv[1]))' "$1" "${2:-out}" 2>&1; } # of r

# serve NAME ARGS...: a server by hand with a run of that name, at a port of its own; leaves name, its number in server and its address in address.
# Its words are in NAME.out and NAME.err. lease (2) and timeout (60), seconds, are the script's to set.
serve() {
    name=$1
    shift
    if [[ " $* " != *" --resume "* ]]; then rm -rf "${work:?}/$name"; fi
    rm -f "$name.err" "$name.workers"
    "$lockstep" server "$@" --listen 127.0.0.1:0 --run "$work/$name" --log-every 1 --lease "${lease:-2}" --timeout "${timeout:-60}" --json \
        >"$name.out" 2>"$name.err" </dev/null &
    server=$!
    pids+=("$server")
    eventually grep -qsE '^parameter server at|^lockstep: [^w]' "$name.err" || bad "$name: the server does not listen: $(head -c 600 "$name.err")"
    address=$(sed -n 's/^parameter server at \([^ ]*\) .*/\1/p' "$name.err")
}
# worker ARGS...: one of one thread for it, its number in pid; its words are in NAME.workers, with those of the others
worker() {
    "$lockstep" train --server "$address" -t 1 --timeout "${timeout:-60}" "$@" >>worker.out 2>>"$name.workers" </dev/null &
    pid=$!
    pids+=("$pid")
}
joined() { [ "$(grep -c '^worker .* joined' "$name.err")" -ge "$1" ]; } # so many, so far
at_step() { has_lines "$work/$name/metrics.jsonl" "$1"; }

# ends_as_alone WHAT PID OUT ARGS...: after SIGTERM, and with the weights of one process that trains ARGS as far
ends_as_alone() {
    local what=$1 out=$3 steps
    kill -TERM "$2"
    wait "$2"
    equal "$what: ended by a signal: exit code" "$?" 75
    steps=$(field steps "$out")
    shift 3
    equal "$what: the weights of one process after $steps steps" "$(field weights_hash "$out")" "$(hash_of "$@" -i "$steps")"
}

# Of a script with --hosts, whose `workers` prints the processes on its hosts and whose `train` adds $common:
none_left() { [ -z "$(workers)" ]; }
begin_on_hosts() { # NAME ARGS...: as job
    local name=$1
    shift
    # shellcheck disable=SC2154,SC2086 # the script's; words
    job $common --run "$work/$name" --log-every 1 "$@"
    eventually has_lines "$work/$name/metrics.jsonl" 5 || bad "$name: no steps: $(head -c 600 err.bg)"
}
# loses_worker WHAT ARGS...: a worker of two is killed on its host; the server says so, the other goes on
loses_worker() {
    local what=$1
    shift
    begin_on_hosts dead "$@"
    equal "$what: two were there" "$(workers | wc -l)" 2
    kill -KILL "$(workers | head -n 1)"
    eventually grep -q 'the others go on' err.bg || bad "$what: it is not missed: $(head -c 600 err.bg)"
    ends_as_alone "$what" "$pid" out.bg
}

# --- how late this machine is ---
# A bound on the time of an event holds for a machine that has time. So while the event is waited for, a metronome measures how late
# processes get their turn, and a bound is that much wider: an event takes a few dozen turns of several processes.
metronome_begin() {
    echo 0 >late
    (
        worst=0
        while [ "$worst" -lt 100000 ]; do
            kill -0 $$ || exit
            begin=${EPOCHREALTIME/./} # no process for it: this goes on for as long as anything is waited for
            sleep 0.02
            late=$(((${EPOCHREALTIME/./} - begin) / 1000 - 20))
            if [ $late -gt $worst ]; then worst=$late; echo $worst >late.new && mv late.new late; fi
        done
    ) &
    metronome=$!
    pids+=("$metronome")
}
# metronome_end: leaves slack, in milliseconds
metronome_end() {
    { kill -KILL "$metronome" && wait "$metronome"; } 2>/dev/null
    slack=$(($(cat late) * 30))
}

# timed WHAT SECONDS COMMAND...: the command becomes true after SECONDS and at most 2 s more, plus what the machine is late. Half of
# SECONDS is enough below: a rank may have waited for its turn, and so been waited for, before it was stopped.
timed() {
    local what=$1 ms=$(($2 * 1000)) begin took
    shift 2
    begin=$(now_ms)
    metronome_begin
    eventually "$@" || bad "$what: never happened: $(head -c 600 err.bg)"
    took=$(($(now_ms) - begin))
    metronome_end
    if [ $took -ge $((ms / 2)) ] && [ $took -le $((ms + 2000 + slack)) ]; then ok "$what after $took ms"
    else bad "$what after $took ms, expected $ms and at most 2000 more, or $slack more than that on a machine as busy as this"; fi
}

# --- the wrapper ---
#   as machines K     ranks 0..K-1 are on machine0, the next K on machine1, ...
#   as slow R S C     rank R is stopped for S seconds of every S + C, as soon as its job trains
#   as dying R        rank R is killed when its job has written a checkpoint; once per run directory
#   as losing R       the same when every machine has a copy in memory
#   as late R         rank R never starts
#   as other R ARGS   rank R gets ARGS more
#   as instead R X    rank R runs the program X
#   as at R DIR       rank R runs in the folder DIR
#   as with R N=V     rank R has the variable N in its environment
# Several may follow each other, each ended by "--"; the command comes last.
cat >as <<'END'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:?no rank}}}
more=() more_env=() program=
run_of() { while [ $# -gt 0 ]; do if [ "$1" = --run ]; then echo "$2"; return; fi; shift; done; }
pause() { read -r -t "$1" -u 9 || :; } # sleeps, without a process for it
slices() { kill -STOP $$ && pause "$1" && kill -CONT $$ && pause "$2"; }
wait_for() { until [ -e "$1" ]; do kill -0 $$ || exit 0; pause 0.002; done; }
behind() { # COMMAND...: beside the rank, holding none of its files
    (
        exec </dev/null >/dev/null 2>&1
        trap '' TERM USR1 USR2 # mpirun signals a rank's whole group
        renice -n -15 "$BASHPID" # not to be late on a busy machine
        fifo=$(mktemp -u)
        mkfifo "$fifo" && exec 9<>"$fifo" && rm -f "$fifo"
        "$@"
    ) &
}
be_slow() { wait_for "$1/manifest.json"; while slices "$2" "$3"; do :; done; }
has_steps() { local folder; for folder in $1; do ls "$folder"/step-*.safetensors >/dev/null 2>&1 || return 1; done; } # PATTERN of folders; whole ones
die() { # RUN PATTERN: looks while the rank stands still, so that a short run is not over before its checkpoint is seen
    wait_for "$1/manifest.json"
    until kill -STOP $$ || exit 0; has_steps "$2"; do
        kill -CONT $$
        pause 0.004
    done
    mkdir "$1.died" && kill -KILL $$
}
args=("$@")
run=$(run_of "$@")
for ((i = 0; i < ${#args[@]}; i++)); do
    what=${args[i]}
    case $what in
        machines) export LOCKSTEP_MACHINE=machine$((rank / args[i + 1])); i=$((i + 1)) ;;
        slow) if [ "$rank" = "${args[i + 1]}" ]; then behind be_slow "$run" "${args[i + 2]}" "${args[i + 3]}"; fi; i=$((i + 3)) ;;
        dying) if [ "$rank" = "${args[i + 1]}" ] && [ ! -e "$run.died" ]; then behind die "$run" "$run/checkpoints"; fi; i=$((i + 1)) ;;
        losing) if [ "$rank" = "${args[i + 1]}" ] && [ ! -e "$run.died" ]; then behind die "$run" "${LOCKSTEP_RESCUE:?}/*/"; fi; i=$((i + 1)) ;;
        late) if [ "$rank" = "${args[i + 1]}" ]; then exec sleep 900; fi; i=$((i + 1)) ;;
        instead) if [ "$rank" = "${args[i + 1]}" ]; then program=${args[i + 2]}; fi; i=$((i + 2)) ;;
        at) if [ "$rank" = "${args[i + 1]}" ]; then cd "${args[i + 2]}" || exit 2; fi; i=$((i + 2)) ;;
        with) if [ "$rank" = "${args[i + 1]}" ]; then more_env+=("${args[i + 2]}"); fi; i=$((i + 2)) ;;
        other) own=${args[i + 1]}; i=$((i + 2))
            for (( ; i < ${#args[@]}; i++)); do
                if [ "${args[i]}" = -- ]; then break; fi
                if [ "$rank" = "$own" ]; then more+=("${args[i]}"); fi
            done ;;
        --) ;;
        *) exec env "${more_env[@]}" "${program:-$what}" "${args[@]:i + 1}" "${more[@]}" ;;
    esac
done
END
chmod +x as
as=$work/as
