#!/usr/bin/env bash
# output.sh LOCKSTEP: with --json, stdout is the result and nothing else, however much MPI has to say, also after a restart. Options
# without effect are told once, also to those who call mpirun themselves.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
for mpi in "${mpis[@]}"; do
    LOCKSTEP_MPI=$mpi UCX_LOG_LEVEL=info "$lockstep" train softmax digits -i 3 --no-eval --timeout 300 -q -w 2 --run "$work/$mpi" --json >out 2>err </dev/null
    equal "$mpi: exit code" $? 0
    equal "$mpi: stdout is JSON" "$(field workers)" 2
    note "$mpi: $(grep -c UCX err) lines of UCX on stderr"

    if unshare -m true 2>/dev/null; then # as in a container: MPI's search for cores finds nothing
        # shellcheck disable=SC2016 # the inner shell expands it
        LOCKSTEP_MPI=$mpi unshare -m bash -c 'mount -t tmpfs none /sys && exec "$@"' - "$lockstep" train softmax digits -i 3 --no-eval --timeout 300 -q -w 2 \
            --run "$work/$mpi.sys" --json >out 2>err </dev/null
        equal "$mpi, no /sys: exit code and stderr" "$? $(cat err)" '0 '
    else
        skipped "$mpi, no /sys: needs root"
    fi

    LOCKSTEP_MPI=$mpi "$lockstep" train lenet5 digits -b 32 --shards 4 -i 60 --no-eval --checkpoint-every 5 --timeout 300 -q -w 3 --max-restarts 2 \
        --run "$work/$mpi.again" --mpi-args "$as dying 1 --" --json >out 2>err </dev/null
    equal "$mpi, a worker killed: exit code" $? 0
    has "$mpi, a worker killed: it was restarted" err 'restart 1 of 2'
    equal "$mpi, a worker killed: stdout is JSON" "$(field workers)" 3
    equal "$mpi, a worker killed: stderr is ours" "$(grep -vc '^lockstep: ' err)" 0

    flags=()
    if [ "$mpi" = openmpi ]; then flags=(-q --oversubscribe); fi
    if [ "$mpi" = openmpi ] && [ "$(id -u)" = 0 ]; then flags+=(--allow-run-as-root); fi
    LOCKSTEP_MPI=$mpi "$(command -v "mpirun.$mpi" || command -v mpirun)" "${flags[@]}" -n 2 "$lockstep" train softmax digits -i 3 --no-eval -q --run "$work/$mpi.direct" --json \
        --optimizer adamw --momentum 0.9 --timeout 300 --max-restarts 1 >out 2>err </dev/null
    equal "$mpi, mpirun by hand: exit code" $? 0
    equal "$mpi, mpirun by hand: stdout is JSON" "$(field workers)" 2
    equal "$mpi, mpirun by hand: told once" "$(grep -c 'warning: --momentum has an effect only with --optimizer sgd' err)" 1
    equal "$mpi, mpirun by hand: no restarts" "$(grep -c 'warning: --max-restarts has an effect only with --workers' err)" 1
    equal "$mpi, mpirun by hand: that is all" "$(grep -c 'has an effect only' err)" 2
done
finish
