#!/usr/bin/env bash
# lab_options.sh LOCKSTEP: what `lab run` is given for all runs, --device and -w, reaches those that do not set it themselves and no others; `slow` of a run
# slows that node of that run.
# --hosts stand for nodes.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
unset LOCKSTEP_DATA
lab() { "$lockstep" lab "$@" >out 2>err </dev/null; code=$?; }
# words RUN OPTION [FILE]: the option with its value in the command of a run, as planned
words() { python3 -c '
import json, re, sys
job = next(j for j in json.load(open(sys.argv[3]))["jobs"] if j["run"] == sys.argv[1])
print(*re.findall(rf"--{sys.argv[2]}(?: \S+)?", job["command"]))' "$1" "$2" "${3:-out}"; }

cat >reach.lab <<'END_LAB'
title  Who gets what
base   model=softmax data=fake:1x8x8:4:200 batch-size=16 epochs=1
question Q1: Nothing is set
  run  free
question Q2: On lines of runs
  run  one workers=1
  run  ref device=ref
  run  many lr=0.03
  vary workers 1 2
question Q3: In a base
  base workers=1 device=cpu
  run  based
  run  own workers=1 lr=0.02
END_LAB
lab show reach.lab --json -w 2 --device ref
equal '-w reaches a run that sets nothing' "$(words free workers) $(words ref workers)" '--workers 2 --workers 2'
equal 'and one that has it from a base' "$(words based workers)" '--workers 2'
equal 'but no line of a run' "$(words one workers) $(words own workers)" '--workers 1 --workers 1'
equal 'and nothing that varies' "$(words many-1 workers) $(words many-2 workers)" '--workers 1 --workers 2'
equal '--device likewise' "$(words free device) $(words based device) $(words own device) $(words many-2 device)" \
    '--device ref --device ref --device ref --device ref'
lab show reach.lab --json --device cpu
equal '--device: not where a run says another' "$(words ref device) $(words free device)" '--device ref --device cpu'
equal 'and nothing else' "$(words free workers)" ''
lab show reach.lab --json
equal 'without them: as the file says' "$(words free device)$(words free workers) $(words based device) $(words one workers)" ' --device cpu --workers 1'
# Images are those that are here; of a set that is not, those published.
python3 - <<'END'
import os, struct
os.makedirs("here/MNIST/raw")
for name, n in (("train", 320), ("t10k", 50)):
    with open(f"here/MNIST/raw/{name}-images-idx3-ubyte", "wb") as f: f.write(struct.pack(">4I", 2051, n, 28, 28) + bytes(n * 784))
    with open(f"here/MNIST/raw/{name}-labels-idx1-ubyte", "wb") as f: f.write(struct.pack(">2I", 2049, n) + bytes(i % 10 for i in range(n)))
END
cat >images.lab <<'END_LAB'
title  How many images?
base   model=softmax data=mnist batch-size=16 epochs=1
question Q1: ?
  run  all
  run  part validation=160
END_LAB
predicted() { python3 -c 'import json; print(*(j["predicted_seconds"] for j in json.load(open("out"))["jobs"]))'; }
lab show images.lab --json --scale 1/2
equal 'half of a published set that is not here' "$(words all iterations)" '--iterations 1875'
lab show images.lab --json
published=$(predicted)
lab show images.lab --json --data-dir "$PWD/here" --scale 1/2
equal 'half of the images that are here' "$(words all iterations) $(words part iterations)" '--iterations 10 --iterations 5'
lab show images.lab --json --data-dir "$PWD/here"
equal "predicted of those that are here ($(predicted) s, of all that are published $published s)" \
    "$(python3 -c 'import sys; a, b = float(sys.argv[1].split()[0]), float(sys.argv[2].split()[0]); print(a - 0.2 < (b - 0.2) / 10)' "$(predicted)" "$published")" True

# What is held back takes longer: all of it where shares are equal (twenty times, but for what the network takes, which is as measured
# here), else as much as the others cannot take over (2/1.05).
cat >held.lab <<'END_LAB'
title  How long will it take?
base   model=softmax data=fake:1x8x8:4:200 batch-size=16 iterations=1000000 nodes=2
question Q1: ?
  run  even
  run  held slow=2:20
  run  equal slow=2:20 balance=off
END_LAB
lab show held.lab --json
equal "predicted with a node at a twentieth ($(predicted) s)" "$(predicted | python3 -c '
even, held, equal = (float(word) - 1.5 for word in input().split())
print(1.6 < held / even < 1.92, 14 < equal / even < 20.1)')" 'True True'

# Number formats that the usual device does not have.
cat >half.lab <<'END_LAB'
title  Half the digits
base   model=softmax data=fake:1x8x8:4:200 batch-size=16 epochs=1 device=cpu
question Q1: ?
  run  whole
  run  half precision=bf16
END_LAB
sed 's/ device=cpu//' half.lab >unnamed.lab
lab run unnamed.lab --run half
one_line_error 'a precision without a device' 2 'unnamed.lab:5: run half: precision=bf16, but no device is named, and '
has 'what to do' err 'write device=cuda beside it, or give lab run --device cuda, on a machine with a card'
lab run half.lab --run half
one_line_error 'a precision that the device does not have' 2 'half.lab:5: run half: precision=bf16: the device cpu computes in f32 only; leave it out, or use device=cuda'
if [ -e "$(dirname "$lockstep")/lockstep-cuda.so" ]; then
    for file in half unnamed; do
        lab show $file.lab --device cuda --json
        equal "--device cuda is considered ($file.lab)" "$code $(words half device) $(words whole device)" '0 --device cuda --device cuda'
    done
    CUDA_VISIBLE_DEVICES='' lab run half.lab --device cuda --run half
    one_line_error 'no card: told before anything runs' 1 'run whole has device=cuda, which cannot compute here: '
else
    lab run half.lab --device cuda --run half
    one_line_error 'no plug-in: told before anything runs' 2 'lockstep-cuda.so was not found'
    skipped 'no CUDA plug-in: precisions of a card are not tried'
fi
if [ -e half ]; then bad 'something was run'; else ok 'nothing was run'; fi

lab run reach.lab --only Q1,Q2 --device no-such-device --run wrong
if [ "$code" -ne 0 ]; then ok 'a device that is not there is told'; else bad 'a device that is not there: exit code 0'; fi

lab run reach.lab --only Q1 --device ref --run device
equal 'a lab with --device: what computed' "$code $(field device device/runs/free-r1/result.json)" '0 ref'
has 'the report tells what was asked for' device/report.md '| command | lockstep lab run reach.lab --only Q1 --device ref |'

# Real machines in place of nodes: here two that a remote shell only claims to reach.
lab show mnist --stand-in --only Q2 --hosts a,b,c,d --json
equal 'a lab of the program on hosts' "$(words softmax hosts) $(words ps-1 hosts) $(words ps-3 hosts)$(words ps-3 nodes)$(words ps-3 network)" \
    ' --hosts a --hosts a,b,c'
cat >cluster.lab <<'END_LAB'
title  On a cluster
base   model=softmax data=fake:1x8x8:4:200 batch-size=16 iterations=10
question Q1: ?
  run  alone
  run  ps sync=ps network=1gbit,0.1ms
  vary nodes 1 2
  show time hash nodes
END_LAB
lab run cluster.lab --hosts 127.0.0.2 --run cluster
one_line_error 'fewer hosts than nodes' 2 '--hosts 127.0.0.2 names 1, but run ps-2 has nodes=2'
if [ -e cluster ]; then bad 'something was run'; fi
if "$lockstep" server --keygen keys >out 2>err; then
    printf '#!/usr/bin/env bash\nshift\nexec sh -c "$*"\n' >rsh
    chmod +x rsh
    LOCKSTEP_RSH=$PWD/rsh lab run cluster.lab --hosts 127.0.0.2,127.0.0.3 --run cluster
    equal 'on hosts: exit code' "$code" 0
    equal 'on hosts: the same weights' "$(for run in ps-1 ps-2; do field weights_hash cluster/runs/$run-r1/result.json; done | sort -u)" \
        "$(field weights_hash cluster/runs/alone-r1/result.json)"
    equal 'on hosts: the first of them' "$(for run in ps-1 ps-2; do
        python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["launch"]["hosts"])' cluster/runs/$run-r1/manifest.json; done | tr '\n' ' ')" \
        '127.0.0.2 127.0.0.2,127.0.0.3 '
    has 'on hosts: the report says so' cluster/report.md 'ps-2: 2 hosts and their network instead of nodes made on this machine and network 1gbit,0.1ms'
    lab run cluster
    equal 'on hosts: gone on as it was begun' "$code $(words ps-2 hosts cluster/state.json)" '0 --hosts 127.0.0.2,127.0.0.3'
    has 'on hosts: not called scaled' cluster/report.md 'Not as the lab has it: '
    lab report cluster --public -o public.md
    equal 'on hosts: a public report names none, of lists that begin alike' "$code $(grep -c '127\.0\.0\.[23]' public.md)" '0 0'
    has 'on hosts: the command of the whole lab' public.md 'lockstep lab run cluster.lab --hosts HOSTS'
    lab run cluster --hosts a,b
    one_line_error 'on other hosts' 2 'goes on as it was begun: leave --hosts out'
else
    skipped "no parameter server: labs on hosts are not run ($(head -n 1 err))"
fi

has_mpi=$(for mpi in openmpi mpich; do
    if [ -e "$(dirname "$lockstep")/lockstep-$mpi.so" ] && command -v "mpirun.$mpi" >/dev/null; then echo yes; break; fi
done)
if [ -z "$has_mpi" ]; then
    skipped 'no MPI: -w and slow are not tried'
    finish
fi
lab run reach.lab --only Q1,Q2 -w 2 --run workers
equal 'a lab with -w: who worked' "$code $(for run in free one ref many-1; do field workers workers/runs/$run-r1/result.json; done | tr '\n' ' ')" '0 2 1 2 1 '
lab run workers
equal 'it goes on as it was begun' "$code $(words free workers workers/state.json)" '0 --workers 2'

cat >slow.lab <<'END_LAB'
title  A node that is held back
base   model=mlp data=fake:1x16x16:4:2000 batch-size=64 iterations=20 nodes=2 threads=1 balance=off no-eval=on checkpoint-every=none
repeat 2
question Q1: What does it cost?
  run  even
  run  mixed slow=2:20
  show time speed-up hash
END_LAB
lab show slow.lab --json
equal 'slow: of its run' "$(words mixed slow)" '--slow 2:20'
equal 'slow: of no other' "$(words even slow)" ''
lab run slow.lab --run slow
equal 'slow: exit code' $code 0
has 'slow: said by the run' slow/runs/mixed-r1.log 'node 2 is held back to 1/20 of its speed'
equal 'slow: not by the other' "$(grep -c 'held back' slow/runs/even-r1.log)" 0
equal 'slow: the same weights' "$(field weights_hash slow/runs/mixed-r1/result.json)" "$(field weights_hash slow/runs/even-r1/result.json)"
# A step takes as long as its slowest node: twenty times, and much less than that of a busy machine is still twice.
best() { for k in 1 2; do field train_seconds "slow/runs/$1-r$k/result.json"; done | sort -g | head -n 1; }
equal "slow: it is ($(best even) s, held back $(best mixed) s)" "$(python3 -c 'import sys; print(float(sys.argv[2]) > 2 * float(sys.argv[1]))' "$(best even)" "$(best mixed)")" True
finish
