#!/usr/bin/env bash
# slurm.sh LOCKSTEP: a Slurm of one node, made in a temporary folder: srun joins its tasks into one job, and a requeued batch job
# resumes where it stopped and ends with the weights of an unbroken run.
#
# Needs slurmctld, slurmd and munged (Debian: slurm-wlm munge) and root; skipped otherwise. srun --mpi=pmix is for Open MPI,
# --mpi=pmi2 for MPICH. The daemons run on ports and sockets of their own and end with the script.
# test: serial timeout=1800
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/sbin:/sbin
need_mpi
for program in slurmctld slurmd munged srun sbatch; do
    command -v $program >/dev/null || skip_all "$program is not installed (Debian: slurm-wlm, munge)"
done
[ "$(id -u)" -eq 0 ] || skip_all "Slurm's daemons need root"
[ ${#work} -le 80 ] || skip_all "$work is too long a path: Slurm and munge have sockets below it, and a socket's path has 107 characters at most"

port=$((20000 + BASHPID % 20000)) host=$(hostname -s)
mkdir -p s/state s/spool
chmod 755 "$work"
dd if=/dev/urandom of=s/key bs=128 count=1 2>/dev/null
chmod 400 s/key
cat >s/slurm.conf <<END
ClusterName=test
SlurmctldHost=$host
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$work/s/munge.sock
StateSaveLocation=$work/s/state
SlurmdSpoolDir=$work/s/spool
SlurmctldPidFile=$work/s/slurmctld.pid
SlurmdPidFile=$work/s/slurmd.pid
SlurmctldLogFile=$work/s/slurmctld.log
SlurmdLogFile=$work/s/slurmd.log
SlurmctldPort=$port
SlurmdPort=$((port + 1))
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=15
NodeName=$host CPUs=8 NodeAddr=127.0.0.1
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
END
export SLURM_CONF=$work/s/slurm.conf

no_jobs() { [ -z "$(squeue -h 2>/dev/null)" ]; }
# The steps first: they outlive a daemon that is killed.
end_slurm() {
    local name daemon
    scancel --user=root 2>/dev/null
    eventually no_jobs
    for name in slurmd slurmctld munged; do
        daemon=$(cat "s/$name.pid" 2>/dev/null) || continue
        kill "$daemon" 2>/dev/null
        eventually is_gone "$daemon" || kill -KILL "$daemon"
    done
    clean_up_jobs
}
trap end_slurm EXIT
munged --force --key-file="$work/s/key" --socket="$work/s/munge.sock" --pid-file="$work/s/munged.pid" \
    --log-file="$work/s/munged.log" --seed-file="$work/s/seed" 2>s/err || skip_all "munged does not start here: $(head -n 1 s/err)"
slurmctld 2>s/err && slurmd 2>>s/err || skip_all "Slurm does not start here: $(tail -n 1 s/err)"
is_idle() { [ "$(sinfo -h -o %t 2>/dev/null)" = idle ]; }
eventually is_idle || skip_all "Slurm's node does not come up here: $(sinfo -h -o '%t %E' 2>&1), $(tail -n 1 s/slurmd.log)"

small_net net.net
args=("$work/net.net" fake:3x32x32:10:640 -b 64 --shards 8 -i 600 --no-eval --checkpoint-every 20 --timeout 120 -q)
reference=$(hash_of "${args[@]}" --run "$work/alone")

joins() { # MPI PMI
    if ! has_mpi "$1"; then skipped "$1 is not installed"; return; fi
    timeout $patience srun --mpi="$2" -n 3 "$lockstep" train "${args[@]}" --run "$work/$1" --json >out 2>err </dev/null
    equal "srun --mpi=$2, $1: exit code" $? 0
    equal "srun --mpi=$2, $1: workers" "$(field workers)" 3
    equal "srun --mpi=$2, $1: weights" "$(field weights_hash)" "$reference"
}
unset LOCKSTEP_MPI
joins openmpi pmix
joins mpich pmi2

# --- requeue ---
pmi=pmix
has_mpi openmpi || pmi=pmi2
cat >batch.sh <<END
#!/bin/bash
echo "restart \${SLURM_RESTART_COUNT:-0}" >>$work/starts
exec srun --mpi=$pmi -n 3 $work/as slow 0 0.05 0.01 -- $lockstep train ${args[*]} --run $work/batch --resume auto --json
END
id=$(sbatch --parsable --requeue -n 3 --open-mode=append -o "$work/batch.out" batch.sh 2>err) || bad "sbatch: $(cat err)"
eventually has_checkpoint "$work/batch" || bad "sbatch: no checkpoint: $(tail -n 3 batch.out)"
scontrol requeue "$id" || bad 'scontrol requeue'
state_of() { squeue -h -j "$id" -o %T 2>/dev/null; }
is_pending() { [ "$(state_of)" = PENDING ]; }
eventually is_pending || bad "after the requeue it should wait: $(state_of)"
scontrol update jobid="$id" starttime=now # Slurm would let it wait two minutes
has_result() { [ -s "$work/batch/result.json" ]; }
eventually has_result || bad "the requeued job did not finish: $(state_of), $(tail -n 3 batch.out)"
equal 'requeued: starts' "$(tr '\n' ' ' <starts)" 'restart 0 restart 1 '
equal 'requeued: weights' "$(field weights_hash "$work/batch/result.json")" "$reference"
eventually no_jobs || bad "the job does not end: $(squeue -h)"
has 'requeued: the first one stopped with a checkpoint' batch.out 'checkpoint written'
finish
