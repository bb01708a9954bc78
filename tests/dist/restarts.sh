#!/usr/bin/env bash
# restarts.sh LOCKSTEP [FOLDER [TRIALS]]: mpirun, the launcher or a worker is killed, signals come at the worst moment.
#
#   mpirun killed     the job goes on with --max-restarts and ends with the same weights; without, exit code 6 and nothing is left
#   launcher killed   a new one takes over the run directory at once, and clears what the old one left in /dev/shm
#   worker killed     named by both MPIs, once
#   signals           at the start, between two attempts, twice: none is lost, none kills
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
trials=${3:-2}
host=$(hostname)
# A job never ends by itself, so that nothing is over before it was disturbed; how far it came is what an undisturbed run is compared with.
endless=(lenet5 digits -b 32 --shards 4 --schedule constant --epochs 100000 --no-eval --checkpoint-every 20 -p 1 -q --timeout 120)

# begin NAME ARGS...: a job that has made a checkpoint and runs on
begin() {
    run=$work/$1
    shift
    rm -rf "$run"
    job "$@" --run "$run"
    eventually has_checkpoint "$run" || bad "$(basename "$run"): no checkpoint: $(head -c 300 err.bg)"
}
mpirun_of() { pgrep -P "$1" '^mpirun' | head -n 1; } # LAUNCHER

# goes_on: five more steps
goes_on() { eventually has_lines "$run/metrics.jsonl" $(($(wc -l <"$run/metrics.jsonl") + 5)); }
# comes_back N: the job has been started again N times, and trains
comes_back() { eventually grep -q "the job was lost; restart $1 of" err.bg && eventually has_ranks "$run" "$2" && goes_on; } # N WORKERS
# stops WHAT: SIGTERM; a checkpoint, exit code 75, and the weights of one process that made as many steps
stops() {
    kill -TERM "$pid"
    job_end
    equal "$1: exit code" "$code" 75
    as_undisturbed "$1"
}
as_undisturbed() {
    local steps hash
    steps=$(field steps) hash=$(field weights_hash)
    equal "$1: weights after $steps steps" "$(hash_of "${endless[@]}" -i "$steps" --checkpoint-every none --run "$work/alone")" "$hash"
    rm -rf "$work/alone"
}

parts "${mpis[@]}"
mpi=$part
export LOCKSTEP_MPI=$mpi


# --- mpirun is killed ---
for ((i = 1; i <= trials; i++)); do
    begin mpirun "${endless[@]}" -w 3 --max-restarts 3 --mpi-args "$as machines $i --"
    kill -KILL "$(mpirun_of "$pid")" || bad "$mpi: mpirun was not found"
    comes_back 1 3 || bad "$mpi, mpirun killed $i: it did not come back: $(cat err.bg)"
    stops "$mpi, mpirun killed $i"
    if grep -q 'mpirun was ended by signal 9' err.bg; then ok "$mpi, mpirun killed $i: said"; else bad "$mpi, mpirun killed $i: $(cat err.bg)"; fi
    leaves_nothing "$mpi, mpirun killed $i" "$run"
done
begin mpirun2 "${endless[@]}" -w 3
kill -KILL "$(mpirun_of "$pid")"
job_end
equal "$mpi, mpirun killed, no restarts: exit code" "$code" 6
equal "$mpi, mpirun killed, no restarts: one line" "$(wc -l <err)" 1
if nothing_runs "$run"; then ok "$mpi, mpirun killed: everything ended before the launcher"; else bad "$mpi, mpirun killed: $(pgrep -af -- "--run $run")"; fi

# --- the launcher is killed, and started again at once ---
begin launcher "${endless[@]}" -w 3 --max-restarts 1 --rescue-every 5
if [ "${LOCKSTEP_TEST_SHM:-0}" = 1 ]; then differs "$mpi, launcher: its folder is there" "$(shm_now)" "$(cat shm.before) "; fi
left=$(shm_now)
kill -KILL "$pid"
job "${endless[@]}" -w 2 --run "$run" --resume auto
follows() { has_ranks "$run" 2 || is_gone "$pid"; }
eventually follows
if is_gone "$pid"; then bad "$mpi, launcher killed: the next one ended: $(cat err.bg)"; fi
goes_on
stops "$mpi, launcher killed, the next one takes over"
if [ "${LOCKSTEP_TEST_SHM:-0}" = 1 ] && [ -n "$left" ]; then
    equal "$mpi, launcher killed: its folder is gone" "$(shm_now)" "$(cat shm.before)"
fi

# --- what was left on the other hosts of a killed launcher ---
if [ "${LOCKSTEP_TEST_SHM:-0}" = 1 ]; then
    for name in old used fresh; do
        mkdir -p "/dev/shm/lockstep-$name/host" && touch "/dev/shm/lockstep-$name/guest"
    done
    exec 8<>/dev/shm/lockstep-used/guest
    flock -s 8
    touch -d '1 hour ago' /dev/shm/lockstep-{old,used}/{guest,host} /dev/shm/lockstep-{old,used}
    train softmax digits -i 1 --no-eval --run "$work/next"
    equal 'copies that nobody needs go with the next start' "$(shm_now | grep '^lockstep-' | tr '\n' ' ')" 'lockstep-fresh lockstep-used '
    exec 8>&-
    rm -rf /dev/shm/lockstep-{old,used,fresh}
fi

# --- a worker is killed ---
# MPICH's mpirun kills the others within milliseconds; only on a busy machine is the first one's death not seen in time.
for ((i = 1; i <= 5; i++)); do
    begin worker "${endless[@]}" -w 3
    kill -KILL "$(rank_pid "$run" 1)"
    job_end
    if [ "$mpi" = openmpi ] || ! grep -q 'a worker was lost' err; then break; fi
done
one_line_error "$mpi, worker killed, trial $i" 6 "rank 1 on $host (pid "
leaves_nothing "$mpi, worker killed" "$run"

# --- signals at any moment ---
# From the moment on at which the launcher has its handlers: before it runs nobody can help it. (This shell has some too, and so has the
# child of it that is to become the launcher.)
listens() { local caught; [ "/proc/$pid/exe" -ef "$lockstep" ] || return; caught=$(sed -n 's/^SigCgt:\t*//p' "/proc/$pid/status" 2>/dev/null); [ -n "$caught" ] && [ $((16#$caught >> 9 & 1)) = 1 ]; }
for after in 0 30 100 300; do
    run=$work/early
    rm -rf "$run"
    job "${endless[@]}" -w 2 --run "$run"
    eventually listens
    sleep "0.$(printf %03d $after)"
    kill -USR1 "$pid"
    kill -TERM "$pid"
    job_end
    if [ "$code" = 75 ] && [ -n "$(newest_of "$run")" ]; then ok "$mpi, SIGUSR1 and SIGTERM after $after ms: exit code 75"
    else bad "$mpi, SIGUSR1 and SIGTERM after $after ms: exit code $code: $(head -c 300 err)"; fi
done

# The worst moment: mpirun and all workers are gone, and the launcher has yet to see it. So it stands still until they are.
has_no_ranks() { has_ranks "$run" 0; }
between_attempts() { # SIGNAL
    kill -STOP "$pid"
    eventually is_state "$pid" T
    kill -KILL "$(mpirun_of "$pid")"
    eventually has_no_ranks
    kill "-$1" "$pid"
    kill -CONT "$pid"
}
run=$work/between
rm -rf "$run"
job "${endless[@]}" --checkpoint-every none -w 2 --max-restarts 3 --run "$run"
eventually has_lines "$run/metrics.jsonl" 5
between_attempts USR1
if eventually has_checkpoint "$run"; then ok "$mpi, SIGUSR1 between two attempts: a checkpoint"; else bad "$mpi, SIGUSR1 between two attempts: $(cat err.bg)"; fi
between_attempts TERM
job_end
equal "$mpi, SIGTERM between two attempts: exit code" "$code" 75
as_undisturbed "$mpi, SIGTERM between two attempts"

# A closing terminal's SIGHUP comes twice, and the second means nothing; one that nohup keeps off never came.
has_taken() { [ $((16#$(sed -n 's/^ShdPnd:\t*//p' "/proc/$pid/status") & 1)) = 0 ]; } # the launcher its SIGHUP
begin hang_up "${endless[@]}" -w 2
first=$(rank_pid "$run" 0)
kill -STOP "$first" # so that the job is not over before the second
for i in 1 2; do
    kill -HUP "$pid"
    eventually has_taken
done
kill -CONT "$first"
job_end
equal "$mpi, SIGHUP twice: exit code" "$code" 75
run=$work/nohup
rm -rf "$run"
(trap '' HUP; exec "$lockstep" train "${endless[@]}" -w 2 --run "$run" --json >out.bg 2>err.bg </dev/null) &
pid=$!
pids+=("$pid")
eventually has_checkpoint "$run"
kill -HUP "$pid"
kill -TERM "$pid"
job_end
equal "$mpi, SIGHUP under nohup and SIGTERM: exit code" "$code" 75

for ((i = 1; i <= trials + 1; i++)); do
    begin twice "${endless[@]}" -w 3 --mpi-args "$as machines 1 --"
    kill -INT "$pid"
    if [ $((i % 2)) = 0 ]; then sleep 0.01; fi
    kill -INT "$pid"
    job_end
    # the first may have been enough by then
    if [ "$code" = 130 ] || [ "$code" = 75 ]; then ok "$mpi, SIGINT twice $i: exit code $code"; else bad "$mpi, SIGINT twice $i: exit code $code: $(head -c 500 err)"; fi
    if grep -qE 'corrupt|Aborted|free\(\)|malloc' err; then bad "$mpi, SIGINT twice $i: $(head -c 500 err)"; fi
    leaves_nothing "$mpi, SIGINT twice $i" "$run"
done
finish
