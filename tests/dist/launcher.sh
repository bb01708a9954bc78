#!/usr/bin/env bash
# launcher.sh LOCKSTEP: the launcher against an mpirun and a remote shell that fail, lie or hang.
#
# Fakes on PATH stand for mpirun where its behaviour is the test: what it exits with, prints, is called with. The rest uses the
# real one: forms of the command line, ports, what is left of a killed launcher.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
has_mpi openmpi || skip_all "Open MPI is not installed"
export LOCKSTEP_MPI=openmpi
tiny=(softmax digits -b 16 -i 3 --no-eval -q)
real_path=$PATH

# --- a fake mpirun ---

mkdir fake
fake() { # the script of mpirun on stdin; \$# are its arguments, program and all
    { echo '#!/bin/bash'; cat; } >fake/mpirun.openmpi
    chmod +x fake/mpirun.openmpi
    rm -rf "$work/run"
    PATH=$work/fake:$real_path
}
fake_train() { # ARGS...
    "$lockstep" train "${tiny[@]}" --run "$work/run" "$@" >out 2>err </dev/null
    code=$?
}

for number in 0 1 2 3 4 5 75 127 255; do
    fake <<<"exit $number"
    fake_train -w 2
    one_line_error "mpirun exits with $number" 6 "no worker started: mpirun ended with exit code $number"
done
fake <<<'kill -SEGV $$'
fake_train -w 2
one_line_error 'mpirun crashes' 6 'mpirun was ended by signal 11'
fake <<<'exit 0'
sed -i '1s,.*,#!/nonexistent/shell,' fake/mpirun.openmpi
fake_train -w 2
one_line_error 'mpirun cannot be started' 1 'fake/mpirun.openmpi: No such file'

# What a worker says counts, whatever mpirun makes of it; what it prints by itself passes.
cat >words <<'END'
token=${LOCKSTEP_LAUNCH%%:*}
say() { printf '\036lockstep %s %s\n' "$token" "$1" >&2; }
END
said() { # WHAT CODE REPORTS...: each report a line
    local what=$1 expected=$2
    shift 2
    { cat words; printf 'say "%s"\n' "$@"; echo 'printf "plain\n\036not a report\npart" >&2; exit 9'; } | fake
    fake_train -w 2
    equal "$what: exit code" "$code" "$expected"
    if [[ $(cat err) == $'plain\n\036not a report\npart'* ]]; then ok "$what: other output passes"; else bad "$what: output: $(cat err)"; fi
}
said 'both end well' 0 'here 0 11 x' 'here 1 12 x' 'end 1 0' 'end 0 0'
said 'rank 0 was stopped' 75 'here 0 11 x' 'here 1 12 x' 'end 1 0' 'end 0 75'
said 'the cause, not its echo' 3 'here 0 11 x' 'here 1 12 x' 'end 0 6' 'end 1 3'
said 'a rank too many is not seen' 0 'here 0 11 x' 'here 7 13 x' 'here 1 12 x' 'cause' 'end 7 0' 'end 1 0' 'end 0 0'
said 'rank 0 says nothing' 6 'here 0 11 x' 'here 1 12 x' 'end 1 0'
{ cat words; echo 'say "here 0 11 x"; say "here 1 12 x"; token=0000000000000000; say "end 0 0"; exit 0'; } | fake
fake_train -w 2
equal 'reports of another job do not count: exit code' "$code" 6
{ cat words; echo 'say "here 0 11 x"; say "here 1 12 y"; exit 1'; } | fake
fake_train -w 2
has 'nobody says how it ended' err 'a worker was lost (mpirun ended with exit code 1)'

# Hosts reach mpirun as they were given.
fake <<'END'
printf '%s\n' "$@" >"$FAKE_OUT"
exit 1
END
export FAKE_OUT=$work/args
fake_train --hosts a.example.org,b.example.org --procs-per-node 2
has 'hosts with domains' args 'a.example.org:2,b.example.org:2'
if grep -A 1 -x -- --mca args | grep -qx orte_keep_fqdn_hostnames; then ok 'hosts with domains: mpirun keeps them'; else bad 'mpirun would cut the domains'; fi
hosts=$(printf 'host-with-a-long-name-%04d,' $(seq 1 400))
fake_train --hosts "${hosts%,}"
equal 'a long list of hosts' "$(grep -o 'host-with-a-long-name-[0-9]*:1' args | wc -l)" 400
fake_train --hosts nosuch.invalid
has 'an unknown host is named' err 'host nosuch.invalid of --hosts has no address'
fake_train -w 2 --mpi-args "--mca btl_tcp_if_include eth1"
equal '--mpi-args as the guide writes it' "$(grep -A 1 -x btl_tcp_if_include args | paste -sd ' ')" 'btl_tcp_if_include eth1'

# Whatever form it was typed in, the workers get one. What the launcher alone reads they do not get.
worker_args() { sed -n "\\,^$lockstep\$,,\$p" args | tail -n +3 | tr '\n' ' '; }
one_form() { # EXPECTED ARGS...
    local expected=$1
    shift
    "$lockstep" train "$@" >out 2>err </dev/null
    equal "one form: train $*" "$(worker_args)" "$expected"
}
one_form '--workers 2 --run r/ softmax digits --iterations 3 --quiet ' -w 2 --run r -qi3 -- softmax digits
one_form '--workers 2 --run r/ softmax digits --batch-size 8 --lr 0.25 --no-balance ' softmax -w2 --run-dir=r --lr=.25 digits --no-balance -b=8
one_form '--workers 2 --run=-x/ softmax digits --resume auto ' softmax digits --run=-x -w 2 --resume auto
one_form '--workers 4 --run r/ softmax digits ' softmax digits --run r --hosts a,b --procs_per_node 2 --max_restarts=0
one_form '--workers 4 --run r/ softmax digits ' softmax digits --run r --hosts a,b --nproc-per-node=2 --mpi-args -v
one_form '--workers 2 --run r/ --iterations 3 -- -model -data ' -w 2 --run r -i 3 -- -model -data
if [ -e runs ]; then bad 'a run directory is left'; fi
"$lockstep" train softmax digits -w 2 >out 2>err </dev/null
if [ -e runs ]; then bad "an empty run directory is left: $(ls runs)"; else ok 'no empty run directory is left'; fi

# --- hanging ---

# A remote shell that never answers: bounded by the timeout, and the host is named.
PATH=$real_path
forever=1000.$$ # seconds; whose sleep it is can be told by it
cat >silent <<END
#!/bin/bash
exec sleep $forever
END
chmod +x silent
hanging() { # WHAT PART ARGS...
    local what=$1 part=$2
    shift 2
    rm -rf "$work/run"
    job "${tiny[@]}" --timeout 0.5 --run "$work/run" "$@"
    job_end
    equal "$what: exit code" "$code" 6
    has "$what: named" err "$part"
    leaves_nothing "$what" "$work/run"
    if eventually nobody_sleeps; then ok "$what: no remote shell is left"; else bad "$what: remote shells are left"; fi
}
nobody_sleeps() { ! pgrep -f "^sleep $forever$" >/dev/null; }
for mpi in "${mpis[@]}"; do
    LOCKSTEP_MPI=$mpi LOCKSTEP_RSH=$work/silent hanging "a silent remote shell, $mpi" 'rank 1 on silent.host' --hosts "$(hostname),silent.host"
done

# mpirun that hangs before it starts anything.
fake <<<"exec sleep $forever"
hanging 'mpirun hangs' '2 of 2 workers did not start within the timeout of 0.5 s' -w 2
PATH=$real_path

# --- what all workers refuse ---

# With the real one: one line, the exit code of the thing, and neither a process nor a folder is left.
printf 'model x\ninput any\nmaxpol 2\nflatten\nlinear fc classes\n' >bad.net
for mpi in "${mpis[@]}"; do
    export LOCKSTEP_MPI=$mpi
    job ./bad.net digits -q -w 2 --run "$work/refused"
    job_end
    one_line_error "a bad model, $mpi" 3 'bad.net:3: unknown statement "maxpol"'
    if [ -e refused ]; then bad "a bad model, $mpi: a run directory is left: $(ls -A refused)"; else ok "a bad model, $mpi: no run directory is left"; fi
    leaves_nothing "a bad model, $mpi" "$work/refused"
    job ./bad.net digits -q -w 2
    job_end
    equal "a bad model without --run, $mpi: exit code, what is left" "$code $(ls -d runs/* 2>/dev/null)" '3 '
done
export LOCKSTEP_MPI=openmpi

# --- who can reach a job on one machine ---

# listeners PID: addresses on which processes below it listen in the machine's own network
listeners() {
    local pid
    [ "$(stat -Lc %i "/proc/$1/ns/net")" = "$(stat -Lc %i /proc/self/ns/net)" ] || return 0
    ss -Hltnp | grep -E "pid=$1[,)]" | awk '{ print $4 }' | grep -v '^127\.\|^\[::1\]'
}
for mpi in "${mpis[@]}"; do
    run=$work/alone
    rm -rf "$run"
    LOCKSTEP_MPI=$mpi job lenet5 digits --no-eval --epochs 100000 -q -w 3 --run "$run"
    eventually has_ranks "$run" 3 && eventually test -s "$run/manifest.json"
    heard=$(for one in $(pgrep -f -- "--run $run( |/|\$)"); do listeners "$one"; done)
    if unshare -Urn true 2>/dev/null || unshare -n true 2>/dev/null; then equal "listens on loopback only, $mpi" "$heard" ''; else
        skipped "namespaces cannot be made here"; fi
    kill -TERM "$pid"
    job_end
    equal "stopped, $mpi: exit code" "$code" 75
done

# A connection to mpirun's port that says nothing. An option for mpirun keeps the job in the common network.
cat >idle.py <<'END'
import socket, sys, time
held = [socket.create_connection(("127.0.0.1", int(port))) for port in sys.argv[1:]]
print("connected", flush=True)
time.sleep(600)
END
run=$work/idle
rm -rf "$run"
LOCKSTEP_MPI=openmpi job lenet5 digits -b 32 --no-eval --epochs 100000 -q -w 2 --run "$run" --mpi-args "--mca mpi_show_handle_leaks 0"
eventually test -s "$run/manifest.json"
mpirun=$(pgrep -P "$pid" '^mpirun')
# shellcheck disable=SC2046 # one port, one word
python3 idle.py $(ss -Hltnp | grep "pid=$mpirun," | awk '{ print $4 }' | grep '^127\.' | sed 's/.*://') >connected 2>&1 &
pids+=($!)
if eventually grep -q connected connected; then
    kill -TERM "$pid"
    job_end
    equal 'an idle connection: the job ends, exit code' "$code" 75
    leaves_nothing 'an idle connection' "$run"
else skipped "no port of mpirun's could be reached: $(tail -n 1 connected)"; kill -KILL "$pid"; fi
finish
