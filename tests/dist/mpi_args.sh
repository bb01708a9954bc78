#!/usr/bin/env bash
# mpi_args.sh LOCKSTEP: what the user tells mpirun beside what the launcher tells it, with every real mpirun there is; and what is
# said where a job cannot have a network of its own.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
tiny=(softmax digits -b 16 -i 3 --no-eval --no-record -q)
expected=$(hash_of "${tiny[@]}" --run "$work/alone")

# goes WHAT ARGS...: trains to the weights of one process. A program before ours has arguments of its own: -n is nice's.
goes() {
    local what="$mpi: $1"
    shift
    rm -rf "$work/run"
    equal "$what" "$(LOCKSTEP_MPI=$mpi hash_of "${tiny[@]}" --timeout 60 --run "$work/run" "$@")" "$expected"
}
refused() { # ARGS...
    LOCKSTEP_MPI=$mpi train "${tiny[@]}" --run "$work/run" "$@"
    one_line_error "$mpi: $*" 2 'how many processes there are is for'
}
# MPICH looks for the networks of nodes in /sys; a chroot may have none, and then it is refused (nodes.sh).
can_shape() { [ "$(id -u)" = 0 ] && [ -c /dev/net/tun ] && unshare -n true 2>/dev/null && { [ "$mpi" = openmpi ] || [ -e /sys/class/net/lo ]; }; }

for mpi in openmpi mpich; do
    if ! has_mpi "$mpi"; then skipped "$mpi is not installed, or this build has no plug-in for it"; continue; fi
    if [ "$mpi" = openmpi ]; then
        goes 'all that -w sets' -w 2 \
            --mpi-args '--mca btl_tcp_if_include lo --mca btl self,tcp -mca pml ob1 --bind-to none --oversubscribe nice -n 1'
        goes 'what contradicts a default' -w 2 --mpi-args '--mca btl_tcp_if_exclude eth0'
        goes 'all that --hosts sets' --hosts "$(hostname)" --procs-per-node 2 \
            --mpi-args '--mca btl self,tcp --mca orte_keep_fqdn_hostnames 1 --map-by slot'
        shaped='--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0'
        refused -w 2 --mpi-args '--mca pml ob1 -np 4'
    else
        goes 'all that -w sets' -w 2 --mpi-args '-iface lo -bind-to none nice -n 1'
        goes 'all that --hosts sets' --hosts "$(hostname)" --procs-per-node 2 --mpi-args '-ppn 2'
        shaped='-iface eth0'
    fi
    refused -w 2 --mpi-args '-n 4'
    if can_shape; then
        goes 'all that --nodes --network sets' --nodes 2 --network 1gbit,0.1ms --mpi-args "$shaped"
        if grep -q 'cannot be had here' err; then skipped "$mpi, --network: $(grep -o 'cannot be had here.*' err)"; fi
    else skipped "$mpi, --nodes --network: needs root, namespaces, /dev/net/tun and, for MPICH, /sys"; fi
done

# A user namespace in which no network namespace can be made. Nobody outside it is concerned.
mpi=${mpis[0]}
warning='its processes listen on every address of this machine'
# shellcheck disable=SC2016 # the inner shell expands it
forbidding=(unshare -Ur bash -c 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"' -)
if ! "${forbidding[@]}" true 2>/dev/null || "${forbidding[@]}" unshare -n true 2>/dev/null; then
    skipped 'namespaces cannot be forbidden here'
else
    "${forbidding[@]}" "$lockstep" train "${tiny[@]}" -w 2 --run "$work/open" --json >out 2>err </dev/null
    equal 'without a network of its own: exit code' $? 0
    equal 'without a network of its own: the weights' "$(field weights_hash)" "$expected"
    equal 'without a network of its own: said once' "$(grep -c "warning: .*$warning" err)" 1
    if unshare -n true 2>/dev/null || unshare -Urn true 2>/dev/null; then
        train "${tiny[@]}" -w 2 --run "$work/own"
        equal 'with a network of its own: nothing is said' "$(grep -c warning: err)" 0
    fi
fi
finish
