#!/usr/bin/env bash
# elastic.sh LOCKSTEP PROGRAMS: the parameter server. Whoever comes, dies or sleeps, a network ends with the hash of one process (promise.sh
# has more of that); what the workers were acknowledged is what was applied, once; a server that was killed goes on from its checkpoint with
# the workers that waited; who has other data or no ticket is not taken; async and ssp come as far as one process.
# test: timeout=900
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
patience=100
"$lockstep" server --keygen keys >out 2>err || skip_all "this build or machine has no ZeroMQ: $(head -n 1 err)"
parts one many killed server refused async near down

common="lenet5 digits -b 64 --no-eval --no-record --seed 5"

served() { # WHAT: the server ends well, with the reference
    wait "$server"
    code=$?
    equal "$1: exit code" "$code" 0
    equal "$1: the weights of one process" "$(field weights_hash "$name.out")" "$reference"
}

# accounts WHAT [STEP]: what each worker of the last server says at its end that it was acknowledged is what the server says it applied, and no
# more. Of one that left or died the last word counts, with or before the last push, whose answer it did not hear. STEP: where the
# server went on from.
cat >accounts.py <<'END'
import json, re, sys
r = json.load(open(sys.argv[1]))
said = {int(n): int(k) for n, k in re.findall(r"^worker (\d+): (\d+) of its pushes are acknowledged", open(sys.argv[2]).read(), re.M)}
workers = r["elastic"]["workers"]
for i, w in enumerate(workers):
    applied, stayed = w["pushes"] - w["rejected"], w["left_step"] is None
    if stayed and said.get(i) != applied: print(f"worker {i}: {applied} are applied, it says {said.get(i)}")
    if not stayed and not 0 <= applied - w["acknowledged"] <= 1: print(f"worker {i}, gone: {applied} are applied, it said {w['acknowledged']}")
if r["sync"] != "ps":
    sums = [r["steps"], r["elastic"]["staleness"]["updates"], sum(w["pushes"] - w["rejected"] for w in workers), sum(w["batches"] for w in workers)]
    if len(set(sums)) > 1: print("steps, updates, pushes that count, batches:", sums)
elif sum(w["shards"] for w in workers) != (r["steps"] - int(sys.argv[3])) * r["shards"]: print("not every shard once")
END
accounts() { equal "$1: applied is acknowledged, by the workers' own words" "$(python3 accounts.py "$name.out" "$name.workers" "${2:-0}" 2>&1)" ''; }

if [ "$part" = one ]; then
    reference=$(hash_of $common -i 40 --run one)
    equal "3 workers, one command: the weights of one process" "$(hash_of $common -i 40 --run w3 -w 3 --sync ps)" "$reference"
    equal "3 workers: all shards of 40 steps counted once" "$(value 'sum(w["shards"] for w in r["elastic"]["workers"])')" "$(value '40 * r["shards"]')"
    equal "the table of ranks: the server, then the workers, all images once" \
        "$(value 'len(r["ranks"]), sum(k["images"] for k in r["ranks"]), r["ranks"][0]["images"]')" "(4, 2560, 0)"
    equal "--backup 1" "$(hash_of $common -i 40 --run b -w 3 --sync ps --backup 1)" "$reference"
    equal "a last batch of another size, dropout, a limited norm" \
        "$(hash_of svhn-cnn fake:3x32x32:10:100 -b 48 --epochs 2 --no-record --clip-norm 0.5 --run s2 -w 2 --sync ps)" \
        "$(hash_of svhn-cnn fake:3x32x32:10:100 -b 48 --epochs 2 --no-record --clip-norm 0.5 --run s1)"
    equal "a layer whose gradient is summed once per step" \
        "$(hash_of mlp fake:1x28x28:10:300 -b 64 --epochs 2 --no-record --run m2 -w 2 --sync ps)" \
        "$(hash_of mlp fake:1x28x28:10:300 -b 64 --epochs 2 --no-record --run m1)"
    # Workers on the server's machine record themselves beside it; one trace, one clock.
    equal "recorded and traced" "$(hash_of lenet5 digits -b 64 --no-eval --seed 5 -i 40 --run rec -w 2 --sync ps --trace)" "$reference"
    equal "ranks.csv: the server and its workers" "$(cut -d, -f3 rec/ranks.csv | tr '\n' ' ')" "rank 0 1 2 "
    for n in 1 2; do
        if [ "$(wc -l <rec/ranks/$n/resources.csv)" -ge 2 ]; then ok "worker $n: its resources"; else bad "worker $n: no resources: $(ls -R rec)"; fi
    done
    cat >traced.py <<'END'
import json, os
events = json.load(open("rec/trace.json"))
steps = {p: [e for e in events if e["pid"] == p and e["ph"] == "X" and e["name"] == "step"] for p in (0, 1, 2)}
assert len(steps[0]) == 40, len(steps[0])
first, last = steps[0][0]["ts"], steps[0][-1]["ts"] + steps[0][-1]["dur"]
for p in (1, 2):
    assert steps[p], f"no steps of worker {p}"
    for e in steps[p]: assert first <= e["ts"] and e["ts"] + e["dur"] <= last + 1e6, (p, e, first, last)
assert not os.path.exists("rec/ranks/1/trace.json")
print("good")
END
    equal "one trace of all, on one clock" "$(python3 traced.py 2>&1)" good
    # With keys: the worker's own fits, another's does not.
    "$lockstep" server --keygen others >out
    serve keyed $common -i 40 --key keys/server.key
    for seconds in 2 8 20; do # until the server has had the time to refuse it
        if "$lockstep" train --server "$address" --timeout $seconds --key others/worker.key >out 2>err </dev/null; then bad "another key is taken"; fi
        if grep -q "does not take this worker's key" err; then break; fi
    done
    if grep -q "does not take this worker's key" err; then ok "another key is not taken"; else bad "another key: $(cat err)"; fi
    worker --key keys/worker.key
    pids+=("$!")
    served "a server and a worker with keys"
    # Not finite: the worker's word becomes the training's.
    train $common -i 40 --run bad --lr 1e6 -w 2 --sync ps
    one_line_error "a loss that is not finite" 5 "layer"
    train $common -i 40 --run refused -w 2 --sync ps --compress 8
    one_line_error "--compress is refused" 2 "--compress is for --sync allreduce"
    train lenet5 digits --server 127.0.0.1:9
    one_line_error "a worker is told what to train" 2 "leave 'lenet5' out"
    "$lockstep" train --server 127.0.0.1:9 --timeout 0.5 >out 2>err </dev/null
    code=$?
    one_line_error "nobody there" 6 "no word from the server"
    "$lockstep" train --server 10.0.0.1:4711 >out 2>err </dev/null
    code=$?
    one_line_error "another machine without a key" 2 "key"
fi

# unending SERVERS: what happens to them takes as long as it likes.
ended() { ends_as_alone "$1" "$server" "$name.out" $unending "${@:2}"; } # WHAT ARGS...
goes_on() { eventually at_step $(($(wc -l <"$work/$name/metrics.jsonl") + 10)); }

if [ "$part" = many ]; then
    # One comes late, one leaves.
    serve late $unending
    worker
    first=$pid
    eventually at_step 20
    worker
    eventually joined 2
    equal "a worker that comes later joins" "$?" 0
    kill -TERM "$first"
    wait "$first"
    equal "a worker that is asked to leave leaves in peace" "$?" 0
    eventually grep -q ' left at step' late.err
    equal "the server says so" "$?" 0
    goes_on
    ended "one came late, one left"
    accounts "one came late, one left"

    # One sleeps beyond its lease and wakes up with sums that nobody wants.
    lease=0.5 serve asleep $unending
    worker
    asleep=$pid
    eventually joined 1
    worker
    eventually joined 2
    eventually at_step 10
    kill -STOP "$asleep"
    eventually grep -q 'has not answered' asleep.err
    goes_on
    equal "the others go on while it sleeps" "$?" 0
    kill -CONT "$asleep"
    goes_on
    ended "one slept beyond its lease"
    accounts "one slept beyond its lease"

    # The server sleeps for longer than a lease: it looks at what came meanwhile before it misses anybody.
    lease=0.5 serve dozing $unending
    worker
    worker
    eventually joined 2
    eventually at_step 10
    kill -STOP "$server"
    sleep 1.5
    kill -CONT "$server"
    goes_on
    equal "the server slept beyond the lease, and goes on" "$?" 0
    ended "the server slept beyond the lease"
    accounts "the server slept beyond the lease"

    # With --backup the others do what a sleeping worker has, long before its lease runs out.
    lease=1000 serve backup $unending --backup 1
    worker
    worker
    asleep=$pid
    eventually joined 2
    eventually at_step 10
    kill -STOP "$asleep"
    goes_on
    equal "--backup 1: the others do not wait for the lease of one that sleeps" "$? $(grep -c 'has not answered' backup.err)" '0 0'
    kill -CONT "$asleep"
    goes_on
    ended "--backup 1, one slept"
    accounts "--backup 1, one slept"

    # One waits when its lease runs out (a step has one shard, and the first worker takes it), and wakes up when it is the only one left.
    lease=0.5 serve idle $unending --shards 1
    worker
    busy=$pid
    eventually joined 1
    worker
    idle=$pid
    eventually joined 2
    kill -STOP "$idle"
    eventually grep -q 'worker 1 on .* has not answered' idle.err
    kill -KILL "$busy"
    eventually grep -q 'worker 0 on .* is gone' idle.err
    kill -CONT "$idle"
    goes_on
    equal "one was idle when its lease ran out, and is the only one left: it goes on" "$?" 0
    ended "one was idle when its lease ran out, and is the only one left" --shards 1
fi

if [ "$part" = killed ]; then
    serve k $unending
    worker
    worker
    eventually joined 2
    eventually at_step $((1 + RANDOM % 80))
    kill -KILL "$pid"
    eventually grep -q 'is gone at step' k.err
    equal "a worker killed: the server says so" "$?" 0
    goes_on
    ended "a worker killed at step $(sed -n 's/.*is gone at step \([0-9]*\).*/\1/p' k.err | head -n 1)"
    accounts "a worker killed"
    # One command: a worker that was killed is started again, or the rest goes on; without anybody it ends.
    name=c
    for restarts in 0 1; do
        rm -rf "$work/c"
        "$lockstep" train $unending --run "$work/c" -w 2 --sync ps --log-every 1 --max-restarts $restarts --json >c.out 2>c.err </dev/null &
        server=$!
        pids+=("$server")
        eventually at_step 5
        kill -KILL "$(pgrep -P "$server" | head -n 1)"
        case $restarts in 0) word='the others go on' ;; *) word='started again' ;; esac
        eventually grep -q "$word" c.err
        equal "one command, --max-restarts $restarts: $word" "$?" 0
        goes_on
        ended "one command, --max-restarts $restarts: a killed worker changes nothing"
    done
    rm -rf "$work/c"
    "$lockstep" train $common -i 100000 --run "$work/c" -w 1 --sync ps --log-every 1 --json -q >out 2>err </dev/null &
    server=$!
    pids+=("$server")
    eventually at_step 5
    pkill -KILL -P "$server"
    wait "$server"
    code=$?
    one_line_error "the only worker is gone" 6 "all workers are gone"
fi

if [ "$part" = server ]; then
    newest_step() { local name; name=$(basename "$(newest_of "$1")" .safetensors); echo $((10#0${name#step-})); } # RUN
    is_saved() { [ "$(newest_step "$1")" -ge $(($(wc -l <"$1/metrics.jsonl") / 20 * 20)) ]; }                        # RUN: all that is due
    serve r $unending --checkpoint-every 20
    worker
    workers=("$pid")
    worker
    workers+=("$pid")
    eventually joined 2
    eventually has_checkpoint "$work/r"
    eventually at_step $((21 + RANDOM % 60))
    # Killed when the newest checkpoint is on the disk: one is written beside the training, which goes on meanwhile. Workers that are
    # stopped hold the training where it is.
    kill -STOP "${workers[@]}"
    eventually is_saved "$work/r"
    kill -KILL "$server"
    wait "$server" 2>/dev/null
    killed=$(wc -l <"$work/r/metrics.jsonl")
    kept=$(newest_step "$work/r")
    lost=$((killed - kept))
    kill -CONT "${workers[@]}"
    eventually grep -q 'is gone; waiting for it' r.workers
    "$lockstep" server --resume "$work/r" --listen "$address" --json >r.out 2>r.err </dev/null &
    server=$!
    pids+=("$server")
    name=r
    eventually grep -qs '^parameter server at' r.err
    back=$(now_ms)
    eventually joined 2
    equal "both workers are back, the same processes" "$? $(sed -n 's/^worker .* joined .*pid \([0-9]*\)$/\1/p' r.err | sort -n | tr '\n' ' ')" \
        "0 $(printf '%s\n' "${workers[@]}" | sort -n | tr '\n' ' ')"
    note "killed at step $killed, $lost steps lost, the workers back $(($(now_ms) - back)) ms after the server"
    if [ $lost -ge 0 ] && [ $lost -le 20 ]; then ok "lost at most the interval of checkpoints: $lost steps"; else bad "lost $lost steps with checkpoints every 20"; fi
    goes_on
    ended "a server that was killed went on with the workers that waited"
    has "it went on from its checkpoint" r.err "resumed from"
    accounts "a server that was killed" "$kept"

    # A signal: a checkpoint, the workers go too; one process alone can go on.
    serve t $unending
    worker
    eventually at_step 20
    ended "SIGTERM"
    has "SIGTERM: the command that serves again" t.err "go on with: lockstep server --resume $work/t --listen 127.0.0.1:0"
    wait "$pid"
    equal "SIGTERM: the worker's exit code" "$?" 75
    until=$(($(value 'r["steps"]' t.out) + 30))
    train --resume "$work/t" -i $until
    equal "SIGTERM, then with a worker of its own: the weights of one process" "$(field weights_hash)" "$(hash_of $unending -i $until --run two)"
fi

# Who would compute something else, or was not asked to come.
if [ "$part" = refused ]; then
    mkdir theirs mine nothing
    python3 "$here/lib.py" mnist theirs
    python3 "$here/lib.py" mnist mine
    printf '\001' | dd of=mine/MNIST/raw/train-images-idx3-ubyte bs=1 seek=100 conv=notrunc status=none
    unset LOCKSTEP_DATA
    serve d softmax mnist --data-dir theirs -b 16 --no-eval --no-record -i 100000
    refused() { # WHAT CODE PART ARGS...
        local what=$1 expected=$2 part=$3
        shift 3
        "$lockstep" train --server "$address" "$@" >out 2>err </dev/null
        code=$?
        one_line_error "$what" "$expected" "$part"
    }
    refused "other data" 2 "the data of this worker are not those that the server" --data-dir mine
    refused "no data" 3 "mnist" --data-dir nothing
    if grep -q avx512 /proc/cpuinfo; then refused "another instruction set" 2 "instruction set is avx2 here" --data-dir theirs --isa avx2 --tune none; fi
    equal "none of them joined" "$(grep -c ' joined' d.err)" 0
    kill -TERM "$server"
    wait "$server"
    equal "a server without workers stops at once" "$?" 75

    # The server of -w N is there for its own workers: nobody else is answered, though on this machine no key is asked for.
    name=ticket
    "$lockstep" train $unending --run "$work/ticket" -w 1 --sync ps --log-every 1 --json >ticket.out 2>ticket.err </dev/null &
    server=$!
    pids+=("$server")
    eventually at_step 3
    address=$(sed -n 's/^parameter server at \([^ ]*\) .*/\1/p' ticket.err)
    differs "the address of the server of -w 1 is known" "$address" none
    refused "no ticket" 6 "no word from the server" --timeout 1
    equal "no ticket: only its own worker joined" "$(grep -c ' joined' ticket.err)" 1
    ended "somebody without a ticket"
fi

if [ "$part" = async ]; then
    small="softmax fake:1x28x28:10:2000 -b 50 --no-eval --no-record --epochs 5 --momentum 0"
    reference=$(hash_of $small --run one)
    equal "ssp:0 has the order of one process" "$(hash_of $small --run z -w 2 --sync ssp:0)" "$reference"
    equal "so has async with one worker" "$(hash_of $small --run y -w 1 --sync async)" "$reference"
    train $small --momentum 0.9 -i 10 --run m -w 2 --sync async
    if grep -q 'warning: --sync async with --momentum 0.9: ' err; then ok "much momentum is warned of"; else bad "no word of momentum: $(cat err)"; fi
    for how in async ssp:1 ssp:3; do
        train $small --run "${how/:/}" -w 3 --sync $how
        equal "$how: exit code" "$code" 0
        equal "$how: every batch once, every update acknowledged" \
            "$(value '[r["steps"], r["elastic"]["staleness"]["updates"], sum(w["batches"] for w in r["elastic"]["workers"])]')" '[200, 200, 200]'
        bound=${how#*:}
        [ $how = async ] || equal "$how: no update is staler" "$(value "r['elastic']['staleness']['max'] <= $bound")" True
    done
    # Killed within an epoch, worker and server: the checkpoint names the batches that are in, and the epochs stay whole.
    serve a $small --sync async --checkpoint-every 7 --epochs 40
    worker
    worker
    eventually joined 2
    eventually at_step 30
    kill -KILL "$pid"
    eventually at_step 60
    kill -KILL "$server"
    wait "$server" 2>/dev/null
    "$lockstep" server --resume "$work/a" --listen "$address" --json >a.out 2>a.err </dev/null
    equal "async: killed and resumed: exit code" "$?" 0
    equal "async: killed and resumed: all updates of all epochs" "$(value 'r["steps"], r["images"]' a.out)" '(1600, 80000)'

    # With one worker the order is that of one process, so a checkpoint that lacked an update or had one twice would show in the weights.
    serve exact $small --sync async --checkpoint-every 7 --epochs 40
    worker
    eventually has_checkpoint "$work/exact"
    kill -KILL "$server"
    wait "$server" 2>/dev/null
    "$lockstep" server --resume "$work/exact" --listen "$address" --json >exact.out 2>exact.err </dev/null
    equal "async, one worker, the server killed: exit code" "$?" 0
    equal "async, one worker, the server killed: the weights of one process, every acknowledged update once" \
        "$(field weights_hash exact.out)" "$(hash_of $small --epochs 40 --run alone)"
    has "it went on from a checkpoint" exact.err "resumed from"

    # One of two sleeps beyond its lease. With a bound the other cannot go further than that until then.
    for how in async ssp:1; do
        lease=0.5 serve "${how/:/}s" $small --sync $how --epochs 100000
        worker
        asleep=$pid
        eventually joined 1
        worker
        eventually joined 2
        eventually at_step 20
        kill -STOP "$asleep"
        eventually grep -q 'has not answered' "$name.err"
        goes_on
        equal "$how: the other goes on while one sleeps" "$?" 0
        kill -CONT "$asleep"
        goes_on
        kill -TERM "$server"
        wait "$server"
        equal "$how, one slept: exit code" "$?" 75
        accounts "$how, one slept"
        [ $how = async ] || equal "$how, one slept: no update is staler" "$(value 'r["elastic"]["staleness"]["max"] <= 1' "$name.out")" True
    done
fi

# Async and ssp come as far as one process. Softmax has one minimum and the rate goes to zero, so there they meet: the accuracy on 10,000
# images may differ by what such a sample does, 0.5 % (the standard deviation of 68 %), four times. LeNet-5 is still getting better after 400
# steps, and by how much depends on the order of the batches; with gradients one update late it must be further than one process in half of them.
if [ "$part" = near ]; then
    judged() { train "$@" --momentum 0 --no-record --seed 5; field test_accuracy; }                      # ARGS...
    staleness() { value '"mean %.2f, at most %d" % (r["elastic"]["staleness"]["mean"], r["elastic"]["staleness"]["max"])'; }
    reference=$(judged softmax digits -b 128 --epochs 1 --run s) half=$(judged lenet5 digits -b 64 -i 200 --run h) whole=$(judged lenet5 digits -b 64 -i 400 --run l)
    note "one process: softmax $reference, LeNet-5 $whole, in half of the steps $half"
    for how in async ssp:1; do
        got=$(judged softmax digits -b 128 --epochs 1 --run "s${how/:/}" -w 2 --sync $how)
        equal "softmax, $how, 2 workers: $got is within 0.02 of $reference; staleness $(staleness)" "$(value "abs($got - $reference) <= 0.02")" True
        got=$(judged lenet5 digits -b 64 -i 400 --run "l${how/:/}" -w 2 --sync $how)
        equal "LeNet-5, $how, 2 workers: $got is more than $half; staleness $(staleness)" "$(value "$got > $half")" True
    done
fi

# One of four asynchronous workers is killed and comes again five seconds later: the others keep up the speed, every update that was
# acknowledged is applied, none twice. What a machine's other users do to a rate is not ours: the best of three trials counts.
if [ "$part" = down ]; then
    small="lenet5 digits -b 64 --no-eval --no-record --epochs 100000 --momentum 0 --lr 0.01"
    updates() { wc -l <"$work/$name/metrics.jsonl"; }
    rate() { # SECONDS: updates per second, times 1000
        local first began
        first=$(updates) began=$(now_ms)
        sleep "$1"
        echo $((($(updates) - first) * 1000000 / ($(now_ms) - began)))
    }
    lease=1 serve down $small --sync async
    for k in 1 2 3; do worker; done
    best=0
    for trial in 1 2 3; do
        worker
        eventually joined $((3 + trial))
        before=$(rate 2)
        kill -KILL "$pid"
        while_down=$(rate 5)
        share=$((100 * while_down / (before > 0 ? before : 1)))
        note "trial $trial: $((before / 1000)) updates/s by four workers, $((while_down / 1000)) while one is down: $share %"
        if [ $share -gt $best ]; then best=$share; fi
        if [ $best -ge 70 ]; then break; fi
    done
    if [ $best -ge 70 ]; then ok "at least 70 % of the speed while one of four is down: $best %"; else bad "only $best % of the speed while one of four is down"; fi
    worker
    eventually joined $((4 + trial))
    equal "it comes again" "$?" 0
    at=$(updates)
    eventually at_step $((at + 50))
    kill -TERM "$server"
    wait "$server"
    equal "a signal: exit code" "$?" 75
    accounts "killed and back again"
    equal "none is missing, none is twice: every epoch had its 938 updates" \
        "$(sed -n 's/^{"step": \([0-9]*\), .*"split": "epoch".*/\1/p' "$work/down/metrics.jsonl" | awk '$1 != 938 * NR' | head -n 3)" ''
fi
finish
