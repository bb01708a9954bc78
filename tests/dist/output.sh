#!/usr/bin/env bash
# output.sh LOCKSTEP: with --json, stdout is the result and nothing else, however much the MPI library has to say.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
for mpi in "${mpis[@]}"; do
    LOCKSTEP_MPI=$mpi UCX_LOG_LEVEL=info "$lockstep" train softmax digits -i 3 --no-eval --timeout 300 -q -w 2 --run "$work/$mpi" --json >out 2>err </dev/null
    equal "$mpi: exit code" $? 0
    equal "$mpi: stdout is JSON" "$(field workers)" 2
    note "$mpi: $(grep -c UCX err) lines of UCX on stderr"
done
finish
