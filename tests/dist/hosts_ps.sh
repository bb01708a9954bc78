#!/usr/bin/env bash
# hosts_ps.sh LOCKSTEP PROGRAMS: --hosts with --sync ps: the server is here, workers are started through a remote shell, here one that only
# looks like ssh: the worker has a session of its own, and nothing but its standard input tells it that this end is gone.
# test: timeout=300
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
patience=100
"$lockstep" server --keygen keys >out 2>err || skip_all "this build or machine has no ZeroMQ: $(head -n 1 err)"
common="$unending --timeout 60"
cat >rsh <<'END'
#!/usr/bin/env bash
host=$1
shift
echo "$host: $*" >>rsh.log
if [ "$host" = 127.0.0.9 ]; then echo "ssh: no route to host" >&2; exit 255; fi
if [ "$host" = 127.0.0.8 ]; then exec sleep 900; fi
setsid -w sh -c "$*" <&0 &
worker=$!
trap 'exit 255' TERM
wait $worker
END
chmod +x rsh
export LOCKSTEP_RSH=$work/rsh MARK_OF_TEST=$work
train() { # ARGS...
    rm -rf "$work/r"
    "$lockstep" train $common --run "$work/r" --json "$@" >out 2>err </dev/null
    code=$?
}
workers() { # of this test
    local one
    for one in $(pgrep -f -- 'train --server'); do
        if [ "/proc/$one/exe" -ef "$lockstep" ] && tr '\0' '\n' 2>/dev/null <"/proc/$one/environ" | grep -qx "MARK_OF_TEST=$work"; then echo "$one"; fi
    done
}

reference=$(hash_of -i 30)
train -i 30 --hosts 127.0.0.2,127.0.0.3 --procs-per-node 2 -t 1 --sync ps
equal 'two hosts of two: exit code' $code 0
equal 'two hosts of two: weights' "$(field weights_hash)" "$reference"
equal 'two hosts of two: a process of two threads on each' "$(value '[w["threads"] for w in r["elastic"]["workers"]], r["workers"], r["threads"]')" '([2, 2], 2, 2)'
has 'two hosts of two: said' err 'the 2 workers of a machine are one process of 2 threads'
has 'keys are not on the command line' rsh.log ' --key fd:0 '
equal 'in the manifest' "$(python3 -c 'import json; print(json.load(open("r/manifest.json"))["launch"]["hosts"])')" '127.0.0.2,127.0.0.3'
train -i 30 --hosts 127.0.0.2,127.0.0.3 --sync ps --servers 3
equal 'a server on each host: weights' "$(field weights_hash)" "$reference"
equal 'a server on each host: three' "$(value 'len(r["elastic"]["each_server"])')" 3
train -i 30 --hosts "127.0.0.2,127.0.0.9,$(hostname)" --sync ps --listen 0.0.0.0
equal 'one host does not answer: weights' "$(field weights_hash)" "$reference"
equal 'one host is this machine: its worker shares memory with the server' "$(value 'sorted(w["shares_memory"] for w in r["elastic"]["workers"])')" '[False, True]'
has 'one host does not answer: named' err "worker process 1 on 127.0.0.9"
has 'one host does not answer: what to try' err "(does \`$LOCKSTEP_RSH 127.0.0.9 true\` work?); the others go on"
train -i 30 --hosts 127.0.0.2,127.0.0.8 --sync ps --timeout 2
equal 'one host is silent: weights' "$(field weights_hash)" "$reference"
has 'one host is silent: named' err 'worker process 1 on 127.0.0.8 has not come within 2 s; the others go on'
train -i 30 --hosts 127.0.0.9 --sync ps -q
sed -i '/no route/d' err # its shell's own words
one_line_error 'no host answers' 6 'all workers are gone'
train -i 30 --hosts no.such.host,127.0.0.2 --sync ps
one_line_error 'a host without an address' 2 'host no.such.host of --hosts'
train -i 30 --hosts 127.0.0.2,127.0.0.3 --procs-per-node 2 --sync async --momentum 0
equal 'async: every worker is a process' "$(value 'len(r["elastic"]["workers"])')" 4
train -i 30 --hosts no.such.host,127.0.0.2 --sync async --listen 127.0.0.1
equal 'a name that only the remote shell knows, and --listen: exit code' $code 0

# --- ends ---

loses_worker 'a worker killed on its host' --hosts 127.0.0.2,127.0.0.3 --procs-per-node 2 --sync ps

begin_on_hosts stopped --hosts 127.0.0.2,127.0.0.3 --sync ps
kill -INT "$pid"
job_end
equal 'Ctrl-C: exit code' "$code" 75
eventually none_left
equal 'Ctrl-C: nothing stays on the hosts' "$?" 0

begin_on_hosts killed --hosts 127.0.0.2,127.0.0.3 --sync ps
equal 'two workers are there' "$(workers | wc -l)" 2
kill -KILL "$pid"
wait "$pid" 2>/dev/null
eventually none_left
equal 'the server is killed: nothing stays on the hosts' "$?" 0
finish
