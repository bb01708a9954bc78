#!/usr/bin/env bash
# ssh.sh LOCKSTEP PROGRAMS: --hosts through a real ssh, all-reduce and a parameter server: two hosts, which are two addresses of this machine with one
# sshd of our own behind them. Its keys and settings are of this test alone; nothing of ~/.ssh or /etc/ssh is read or written.
# test: timeout=300
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
patience=100
sshd=$(command -v sshd || ls /usr/sbin/sshd 2>/dev/null) || skip_all "no sshd here (package openssh-server)"
command -v ssh >/dev/null && command -v ssh-keygen >/dev/null || skip_all "no ssh here (package openssh-client)"
"$lockstep" server --keygen keys >out 2>err || skip_all "this build or machine has no ZeroMQ: $(head -n 1 err)"
if [ "$(id -u)" -eq 0 ]; then mkdir -p /run/sshd; fi # where it locks itself in; /run is this test's own
common="$unending --timeout 60"
hosts=127.0.0.2,127.0.0.3

# --- an sshd, and an ssh that knows nobody else ---

ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t ed25519 -N '' -f own || skip_all "ssh-keygen makes no keys here"
free_port 127.0.0.2
cat >sshd.conf <<END
Port $port
ListenAddress 127.0.0.2
ListenAddress 127.0.0.3
HostKey $work/host
AuthorizedKeysFile $work/own.pub
PidFile none
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
MaxStartups 100
PrintMotd no
END
sed "s/^/* /; s/ [^ ]*$//" host.pub >known
cat >ssh.conf <<END
Host *
Port $port
User $(id -un)
IdentityFile $work/own
IdentitiesOnly yes
BatchMode yes
UserKnownHostsFile $work/known
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
LogLevel ERROR
END
printf '#!/bin/sh\necho "$*" >>%s\nexec ssh -F %s "$@"\n' "$work/rsh.log" "$work/ssh.conf" >rsh
chmod +x rsh
"$sshd" -D -e -f sshd.conf 2>sshd.log &
daemon=$!
pids+=("$daemon")
disown "$daemon" # its end is no news
reaches() { ./rsh 127.0.0.2 true 2>said && ./rsh 127.0.0.3 true 2>said; }
eventually reaches || skip_all "an sshd of our own does not let us in: $(tail -n 1 said) $(tail -n 1 sshd.log)"
export LOCKSTEP_RSH=$work/rsh

train() { # ARGS...
    rm -rf "$work/r"
    : >rsh.log
    "$lockstep" train $common --run "$work/r" --json "$@" >out 2>err </dev/null
    code=$?
}
# What sshd runs for us: below it, and the program under test.
family() { local one; for one in $(pgrep -P "$1"); do echo "$one"; family "$one"; done; }
workers() { local one; for one in $(family "$daemon"); do if [ "/proc/$one/exe" -ef "$lockstep" ]; then echo "$one"; fi; done; }

# --- a parameter server ---

reference=$(hash_of -i 30)
train -i 30 --hosts $hosts --procs-per-node 2 --sync ps
equal 'ps: exit code' $code 0
equal 'ps: weights' "$(field weights_hash)" "$reference"
equal 'ps: a process for the two workers of a host' "$(value 'len(r["elastic"]["workers"])')" 2
equal 'ps: through ssh, to each host once' "$(grep -c '^127.0.0.2 ' rsh.log) $(grep -c '^127.0.0.3 ' rsh.log)" '1 1'
equal 'ps: no key on a command line' "$(grep -c -- '--key fd:0' rsh.log)" 2
has 'ps: a prediction first' err 'per step of 2 workers and 1 server (network: '
train -i 30 --hosts $hosts --sync ps --servers 2
equal 'two servers: weights' "$(field weights_hash)" "$reference"

loses_worker "ps, a host's worker killed" --hosts $hosts --sync ps
begin_on_hosts gone --hosts $hosts --sync ps
kill -KILL "$pid"
wait "$pid" 2>/dev/null
eventually none_left
equal 'the server is killed: nothing stays on the hosts' "$?" 0

# --- all-reduce ---

reference=$(hash_of -i 30)
if ! [ -e "$(dirname "$lockstep")/lockstep-openmpi.so" ] || ! command -v mpirun >/dev/null; then
    skipped 'all-reduce: no Open MPI here'
    finish
fi
train -i 30 --hosts $hosts
equal 'all-reduce: exit code' $code 0
equal 'all-reduce: weights' "$(field weights_hash)" "$reference"
equal 'all-reduce: two workers' "$(field workers)" 2
has 'all-reduce: through ssh' rsh.log '127.0.0.3 '
begin_on_hosts broken --hosts $hosts
kill -KILL "$(workers | head -n 1)"
job_end
equal "all-reduce, a host's worker killed: exit code" "$code" 6
eventually none_left
equal "all-reduce, a host's worker killed: nothing stays on the hosts" "$?" 0
finish
