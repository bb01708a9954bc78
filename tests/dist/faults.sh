#!/usr/bin/env bash
# faults.sh LOCKSTEP [FOLDER [TRIALS]]: jobs whose ranks die, hang, crawl, differ or are missing.
#
#   killed rank    everyone is gone long before the timeout, exit code 6, the cause named once, nothing left behind
#   restarts       the same weights as undisturbed; one failure too many ends it
#   stopped rank   noticed after the timeout and at most 2 s, by rank, step and operation; stopped for less: nothing happens
#   straggler      no timeout, and the report names it
#   other options  refused long before the timeout and before the first step, with the difference
#   missing rank   a clear error after the timeout
#   signals        SIGTERM: checkpoint, exit code 75; SIGUSR1: checkpoint, and on
# TRIALS (2): how many ranks are killed, at random moments; 20 in `make soak`.
# Jobs that something happens to never end by themselves; how far they came is what an undisturbed run is compared with.
# test: timeout=3600
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; numbers
source "$(dirname "$0")/lib.sh"
need_mpi
trials=${3:-2}
timeout=10 # for ranks that hang; long enough for a start on a busy machine
host=$(hostname)
unset LOCKSTEP_DATA # a set that is missing on one rank must not be found elsewhere
export XDG_CACHE_HOME=$work/cache

small_net net.net
endless=(./net.net fake:1x28x28:10:640 -b 32 --shards 8 --schedule constant --epochs 1000000 --no-eval --checkpoint-every 20 -p 1
    --timeout 600 -q)

# as_undisturbed WHAT: after a job that ended with out: its weights are those of one process that made as many steps
as_undisturbed() {
    local steps
    steps=$(field steps)
    cp out out.job
    equal "$1: weights after $steps steps" "$(hash_of "${endless[@]}" -i "$steps" --checkpoint-every none)" "$(field weights_hash out.job)"
}

# stop WHAT: SIGTERM; the job ends with a checkpoint and exit code 75
stop() {
    kill -TERM "$pid"
    job_end
    equal "$1: exit code after SIGTERM" "$code" 75
}

# goes_on RUN [N]: waits for N (3) more lines of metrics
goes_on() { eventually has_lines "$1/metrics.jsonl" $(($(wc -l <"$1/metrics.jsonl") + ${2:-3})); }

# begin NAME ARGS...: an endless job that has made a checkpoint and runs on; its run directory in run
begin() {
    run=$work/$1
    shift
    rm -rf "$run"
    job "${endless[@]}" "$@" --run "$run"
    eventually has_checkpoint "$run" || bad "$(basename "$run"): no checkpoint: $(head -c 300 err.bg)"
}

# names_cause WHAT RANK HOST: one line says which rank on which host and its step
names_cause() {
    local lines
    lines=$(grep '^lockstep: rank ' err)
    if [ "$(grep -c . <<<"$lines")" -ne 1 ]; then bad "$1: the cause is not named once: $(head -c 600 err)"
    elif [[ $lines == "lockstep: rank $2 on $3"*"step "[0-9]* ]]; then ok "$1: $lines"
    else bad "$1: rank $2 on $3 and its step are not named: $lines"
    fi
}

parts dead hanging different signals

# --- a rank dies ---

part_dead() {
    killed() { # WHAT RANK HOST|- ARGS...
        local what=$1 rank=$2 whose=$3 victim
        shift 3
        begin killed "$@"
        goes_on "$run" $((RANDOM % 50))
        victim=$(rank_pid "$run" "$rank")
        kill -KILL "$victim" || bad "$what: rank $rank was not found: $(ranks_of "$run" | tr '\n' ' ')"
        job_end
        equal "$what: exit code" "$code" 6
        if [ "$whose" != - ]; then names_cause "$what" "$rank" "$whose"; fi
        leaves_nothing "$what" "$run"
        if [ -n "$(newest_of "$run")" ] && "$lockstep" inspect "$run" >/dev/null 2>err; then ok "$what: the checkpoint loads"
        else bad "$what: no good checkpoint is left: $(head -c 300 err)"; fi
    }

    for ((i = 1; i <= trials; i++)); do
        killed "killed $i" $((1 + RANDOM % 3)) "$host" -w 4
        killed "rank 0 killed $i" 0 "$host" -w 4
    done
    killed 'killed, 3 machines' 2 machine2 -w 3 --mpi-args "$as machines 1 --"
    killed 'rank 0 killed, 3 machines' 0 machine0 -w 3 --mpi-args "$as machines 1 --"
    killed 'killed, 2 machines x 2' 3 machine1 -w 4 --mpi-args "$as machines 2 --"
    killed 'leader killed, 2 machines x 2' 2 machine1 -w 4 --mpi-args "$as machines 2 --"
    if has_mpi mpich; then # its mpirun ends all at once, so no rank can say anything
        LOCKSTEP_MPI=mpich killed 'killed, MPICH' 1 - -w 3
    fi

    # In an evaluation a rank stands at the step it trained last: four steps, then many samples to test, in shards of
    # one: Open MPI gives the other rank a second to see what has happened.
    cat >slow.net <<'END'
model slow
input any
conv conv1 64 3 pad=1
relu
conv conv2 64 3 pad=1
relu
globalavgpool
flatten
linear fc classes
END
    is_evaluating() { grep -q "\"step\": $2, .*\"split\": \"train\"" "$1/metrics.jsonl" 2>/dev/null; }  # RUN STEP
    is_evaluated() { grep -q "\"step\": $2, .*\"split\": \"test\"" "$1/metrics.jsonl"; }                # RUN STEP
    ticks_of() { # PID: its CPU time
        local stat
        stat=$(cat "/proc/$1/stat")
        read -r -a stat <<<"${stat##*) }"
        echo $((stat[11] + stat[12]))
    }
    has_worked() { is_gone "$1" || [ "$(ticks_of "$1")" -gt $(($2 + 2)) ]; }                                   # PID SINCE
    in_evaluation() { # WORKERS RANK: leaves the job's end
        local _ victim since
        for _ in 1 2 3 4 5; do # the evaluation may be over before it was noticed, when the machine is busy
            run=$work/evaluation
            rm -rf "$run"
            job ./slow.net fake:1x28x28:10:40000 -b 32 --shards 32 -p 1 -i 4 -q -w "$1" --run "$run" --timeout 300
            eventually is_evaluating "$run" 4
            victim=$(rank_pid "$run" "$2")
            since=$(ticks_of "$victim")
            eventually has_worked "$victim" "$since" # all there is to do after the epoch's line is to evaluate
            kill -STOP "$victim" && eventually is_state "$victim" T
            if is_evaluated "$run" 4; then is_in_time=false; else is_in_time=true; fi # nobody ends it while one stands still
            kill -KILL "$victim"
            job_end
            if $is_in_time; then return; fi
        done
    }
    in_evaluation 2 1
    has 'killed in an evaluation: the step trained last' err 'died at step 4, evaluation'

    # The launcher dies.
    begin launcher -w 3
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    leaves_nothing 'launcher killed' "$run"

    # --- restarts ---

    # is_at RESTARTS RUN: the job has been started again that often, and all its ranks are there
    is_at() {
        [ "$(grep -c 'the job was lost; restart' err.bg)" -eq "$1" ] && has_ranks "$2" 3 &&
            ! ranks_of "$2" | cut -d ' ' -f 2 | grep -qFx -f victims
    }
    restarted() { # WHAT KILLS RESTARTS
        local i victim
        run=$work/restarted
        rm -rf "$run"
        : >victims
        job "${endless[@]}" -w 3 --max-restarts "$3" --run "$run" --mpi-args "$as machines $((1 + RANDOM % 3)) --"
        for ((i = 0; i < $2; i++)); do
            eventually is_at "$i" "$run" || bad "$1: it did not come back after $i kills: $(cat err.bg)"
            eventually has_lines "$run/metrics.jsonl" 1 && goes_on "$run" $((1 + RANDOM % 50))
            victim=$(rank_pid "$run" $((RANDOM % 3)))
            echo "$victim" >>victims
            kill -KILL "$victim" || bad "$1: no rank to kill"
        done
    }

    for ((i = 1; i <= (trials + 1) / 2; i++)); do
        kills=$((1 + RANDOM % 3))
        restarted "restarted $i" $kills 3
        eventually is_at $kills "$run" && goes_on "$run"
        stop "restarted $i, $kills times"
        equal "restarted $i: times" "$(grep -c 'the job was lost; restart' err)" $kills
        as_undisturbed "restarted $i"
    done
    restarted 'one failure too many' 2 1
    job_end
    equal 'one failure too many: exit code' "$code" 6
    has 'one failure too many: said' err 'the job was lost 2 times; giving up'
    leaves_nothing 'one failure too many' "$run"
}

# --- a rank hangs ---

part_hanging() {
    is_told() { grep -q '^lockstep: rank ' err.bg; }
    stopped() { # WHAT RANK HOST ARGS...
        local what=$1 rank=$2 whose=$3
        shift 3
        begin stopped --timeout "$timeout" "$@"
        kill -STOP "$(rank_pid "$run" "$rank")"
        timed "$what: noticed" "$timeout" is_told
        job_end
        equal "$what: exit code" "$code" 6
        names_cause "$what" "$rank" "$whose"
        leaves_nothing "$what" "$run"
    }
    stopped 'stopped' 2 "$host" -w 3
    stopped 'stopped, 3 machines' 2 machine2 -w 3 --mpi-args "$as machines 1 --"
    stopped 'stopped, 2 machines x 2' 3 machine1 -w 4 --mpi-args "$as machines 2 --"
    if has_mpi mpich; then LOCKSTEP_MPI=mpich stopped 'stopped, MPICH' 1 "$host" -w 3; fi

    # Stopped for a fifth of the timeout: the others wait, and nothing happens.
    begin paused -w 3 --timeout 20 --mpi-args "$as machines 2 --"
    for rank in 1 2; do
        victim=$(rank_pid "$run" $rank)
        kill -STOP "$victim"
        sleep 4
        kill -CONT "$victim"
        goes_on "$run" || bad "stopped for 4 s, timeout 20 s: rank $rank does not go on: $(cat err.bg)"
    done
    stop 'stopped for 4 s, timeout 20 s'
    as_undisturbed 'stopped for 4 s, timeout 20 s'

    run=$work/late
    job "${endless[@]}" --timeout $timeout -w 3 --run "$run" --mpi-args "$as late 2 --"
    eventually has_ranks "$run" 2
    timed 'a rank that never starts: noticed' $timeout grep -q 'not all processes' err.bg
    job_end
    equal 'a rank that never starts: exit code' "$code" 6
    has 'a rank that never starts' err "not all processes of the job came within $timeout s"
    leaves_nothing 'a rank that never starts' "$run"
}

# --- ranks that do not fit together ---

part_different() {
    # A machine that is five times slower: slow enough to be named, no reason to give up.
    "$lockstep" train "${endless[@]/-q/-v}" -i 400 -w 2 --run "$work/straggler" --mpi-args "$as machines 1 -- slow 1 0.012 0.003 --" --json >out 2>err
    equal 'straggler: exit code' $? 0
    cp err err.job
    as_undisturbed 'straggler'
    has 'straggler: named' err.job 'the slowest machine was machine1'

    refused() { # WHAT CODES PART ARGS...
        local what=$1 codes=$2 part=$3
        shift 3
        run=$work/refused
        rm -rf "$run"
        job "${endless[@]}" -w 3 --run "$run" "$@"
        job_end
        if [[ " $codes " == *" $code "* ]]; then ok "$what: exit code $code"; else bad "$what: exit code $code, expected $codes"; fi
        if [ "$(grep -cF -- "$part" err)" -eq 1 ]; then ok "$what: $(grep -F -- "$part" err | cut -c 1-250)"
        else bad "$what: '$part' is not printed once: $(head -c 600 err)"; fi
        if has_lines "$run/metrics.jsonl" 1; then bad "$what: a step was made"; fi
        leaves_nothing "$what" "$run"
    }
    refused 'another seed' 1 'rank 2 on' --mpi-args "$as other 2 --seed 7 --"
    refused 'another learning rate, 3 machines' 1 'rank 1 on machine1' --mpi-args "$as machines 1 -- other 1 --lr 0.125 --"
    if grep -q 'lr=0.125' err && grep -q 'lr=0.05' err; then ok 'both learning rates are shown'; else bad "both learning rates should be shown: $(cat err)"; fi
    mkdir -p elsewhere
    sed 's/conv1 8 5/conv1 9 5/' net.net >elsewhere/net.net
    refused 'another model file' 1 'rank 1 on' --mpi-args "$as at 1 $work/elsewhere --"

    version=$("$lockstep" --version | sed -n 's/^lockstep //p')
    mkdir -p other
    # The first letter only: what it ends in may be the tail of it, shared with other strings.
    sed "s/${version//./\\.}/9${version#?}/g" "$lockstep" >other/lockstep
    cp "$(dirname "$lockstep")"/lockstep-*.so other/
    chmod +x other/lockstep
    LOCKSTEP_PLUGINS=$work/other refused 'another version' 1 "version: 9${version#?}" --mpi-args "$as instead 2 $work/other/lockstep --"

    refused 'another number of workers' '1 2 6' '4 workers were asked for' --mpi-args "$as other 2 --workers 4 --"
    refused 'wrong number of processes' 2 'how many processes there are is for --workers to say' --mpi-args='-n 2'

    python3 "$here/lib.py" mnist data 2>/dev/null || bad 'a small data set could not be made'
    run=$work/nodata
    mkdir -p elsewhere2
    "$lockstep" train lenet5 mnist --data-dir data -b 16 -i 2 -q -w 3 --run "$run" --mpi-args "$as at 2 $work/elsewhere2 --" >out 2>err
    code=$?
    if [ $code -eq 3 ] || [ $code -eq 6 ]; then ok "data missing on one rank: exit code $code"; else bad "data missing on one rank: exit code $code"; fi
    if [ "$(grep -c 'rank 2 on' err)" -eq 1 ]; then ok "data missing on one rank: $(cat err)"; else bad "data missing on one rank: $(cat err)"; fi
}

# --- signals ---

part_signals() {
    for signal in TERM INT; do
        begin "signal-$signal" -w 3 --mpi-args "$as machines 2 --"
        kill -"$signal" "$pid"
        job_end
        equal "SIG$signal: exit code" "$code" 75
        if [ "$(grep -c "go on with: lockstep train --resume $run" err)" -eq 1 ]; then ok "SIG$signal: $(cat err)"; else bad "SIG$signal: $(cat err)"; fi
        as_undisturbed "SIG$signal"
        train "${endless[@]}" -w 2 -i $(($(field steps out.job) + 30)) --run "$run" --resume auto
        equal "SIG$signal, resumed with other workers: exit code" "$code" 0
        as_undisturbed "SIG$signal, resumed with other workers"
    done

    run=$work/usr1
    job "${endless[@]}" -w 3 --checkpoint-every none --run "$run"
    eventually has_lines "$run/metrics.jsonl" 5
    kill -USR1 "$pid"
    if eventually has_checkpoint "$run" && ! is_gone "$pid"; then ok 'SIGUSR1: a checkpoint'; else bad "SIGUSR1: no checkpoint: $(cat err.bg)"; fi
    if goes_on "$run" 5; then ok 'SIGUSR1: goes on'; else bad 'SIGUSR1: does not go on'; fi
    stop 'SIGUSR1'
}

"part_$part"
finish
