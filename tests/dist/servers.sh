#!/usr/bin/env bash
# servers.sh LOCKSTEP PROGRAMS: --servers K: several servers have a part of the parameters each. Weights, checkpoints and evaluation are those
# of one process; what of a push is only half there counts nowhere; a server that dies ends the training, which goes on from its checkpoint;
# one that sleeps is waited for, but not for ever.
# test: timeout=600
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
patience=100
"$lockstep" server --keygen keys >out 2>err || skip_all "this build or machine has no ZeroMQ: $(head -n 1 err)"
parts same refused faults asleep hand

norm="input any
conv conv1 12 3 pad=1
bn bn1
relu
maxpool 2
flatten
linear fc1 300
relu
dropout 0.3
linear fc2 classes"
printf 'model norm\n%s\n' "$norm" >norm.net
common="$PWD/norm.net fake:1x14x14:10:300 -b 48 --no-record --seed 5"
at_step() { has_lines "$work/$1/metrics.jsonl" "$2"; }                                                                   # RUN N
keeper_of() { pgrep -P "$1" -f -- "server --chief" | head -n 1; }                                                         # PID of the chief
worker_of() { pgrep -P "$1" -f -- "train --server" | head -n 1; }
begin() { # NAME ARGS...: a training in the background, its number in chief
    name=$1
    shift
    "$lockstep" train "$@" --run "$work/$name" --log-every 1 --json >"$name.out" 2>"$name.err" </dev/null &
    chief=$!
    pids+=("$chief")
}

if [ "$part" = same ]; then
    for optimizer in "--momentum 0.9 --weight-decay 1e-3" "--optimizer adamw"; do
        rm -rf "$work"/one "$work"/s*
        reference=$(hash_of $common $optimizer --epochs 3 --checkpoint-every 5 --keep 100 --run one)
        judged=$(value '[r["test_loss"], r["test_accuracy"], r["train_loss"], r["train_accuracy"]]')
        for servers in 2 3; do
            for n in 1 2 3; do
                what="$optimizer, $servers servers, $n workers"
                equal "$what: the weights of one process" \
                    "$(hash_of $common $optimizer --epochs 3 --checkpoint-every 5 --keep 100 --run s$servers$n -w $n --sync ps --servers $servers)" "$reference"
                equal "$what: loss and accuracy, test and training" \
                    "$(value '[r["test_loss"], r["test_accuracy"], r["train_loss"], r["train_accuracy"]]')" "$judged"
            done
        done
        # Within an epoch: parameters, running statistics and optimizer state of all servers.
        for step in 00000005 00000010; do
            file=$(ls one/checkpoints/step-*"${step#000}".safetensors | head -n 1)
            equal "$optimizer: the checkpoint of step $step is that of one process" \
                "$(tensors_of "s32/checkpoints/${file##*/}" | grep -v '"workers\|"sync\|"servers')" "$(tensors_of "$file" | grep -v '"workers\|"sync\|"servers')"
        done
    done
    equal "result.json: the servers" "$(value 'r["elastic"]["servers"], len(r["elastic"]["each_server"])')" "(3, 3)"
    equal "result.json: each has about a third, and all of it together" \
        "$(value '[all(0.25 < s["parameters"] / sum(t["parameters"] for t in r["elastic"]["each_server"]) < 0.42 for s in r["elastic"]["each_server"]), all(s["bytes_received"] > 0 and s["bytes_sent"] > 0 for s in r["elastic"]["each_server"])]')" \
        "[True, True]"
    equal "--backup 1" "$(hash_of $common --epochs 3 --run b -w 3 --sync ps --servers 2 --backup 1)" "$(hash_of $common --epochs 3 --run b1)"
    equal "frozen parameters, and a layer whose gradient is summed once per step" \
        "$(hash_of mlp fake:1x28x28:10:300 -b 64 --epochs 2 --no-record --freeze 'fc1*' --run f2 -w 2 --sync ps --servers 3)" \
        "$(hash_of mlp fake:1x28x28:10:300 -b 64 --epochs 2 --no-record --freeze 'fc1*' --run f1)"
fi

if [ "$part" = refused ]; then
    train $common --run no -w 2 --servers 2
    one_line_error "all-reduce has none" 2 "--servers 2 is for --sync ps, not allreduce"
    train $common --run no -w 2 --sync async --servers 2
    one_line_error "async has one" 2 "--servers 2 is for --sync ps, not async"
    train $common --run no -w 2 --sync ps --servers 2 --clip-norm 1
    one_line_error "a norm needs all of it" 2 "--clip-norm needs the whole gradient in one place"
    train $common --run no -w 2 --sync ps --servers 2 --histograms 1
    one_line_error "so do histograms" 2 "--histograms need the whole gradient in one place"
    train softmax fake:1x4x4:10:300 -b 48 --run no -w 2 --sync ps --servers 7
    one_line_error "a network that is too small" 2 "sums, enough for 1 server"
    train $common --run no -w 2 --sync ps --servers 65
    one_line_error "too many" 2 "--servers 65: expected a whole number from 1 to 64"
    "$lockstep" server lenet5 digits --chief 127.0.0.1:9 >out 2>err </dev/null
    code=$?
    one_line_error "one more server is told what is trained" 2 "leave 'lenet5' out"
    "$lockstep" server --chief 127.0.0.1:9 --timeout 0.5 >out 2>err </dev/null
    code=$?
    one_line_error "nobody there" 6 "no word from the server"
    "$lockstep" server --chief 10.0.0.1:4711 >out 2>err </dev/null
    code=$?
    one_line_error "another machine without a key" 2 "key"
    "$lockstep" server $common --servers 2 --listen 127.0.0.1:0 --timeout 0.5 --run "$work/lonely" -q >out 2>err </dev/null
    code=$?
    one_line_error "the other server does not come" 6 "1 of 2 servers are here"
fi

newest_step() { local name; name=$(basename "$(newest_of "$1")" .safetensors); echo $((10#${name#step-})); } # RUN

if [ "$part" = faults ]; then
    # A worker that dies in a step: what it pushed to some servers only counts nowhere.
    begin w $unending -w 3 --sync ps --servers 3
    eventually at_step w 10
    kill -KILL "$(worker_of "$chief")"
    eventually grep -q 'is gone at step' w.err || bad "a worker killed: not missed: $(head -c 600 w.err)"
    ends_as_alone "a worker killed" "$chief" w.out $unending
    # A server that dies: one line, exit code 6, and the run goes on from its checkpoint, with another number of servers or none.
    begin k $unending -w 2 --sync ps --servers 3 --checkpoint-every 20 -q
    eventually has_checkpoint "$work/k"
    kill -KILL "$(keeper_of "$chief")"
    wait "$chief"
    code=$?
    cp k.err err
    one_line_error "a server killed" 6 "of 3 on"
    has "it names it" err "is gone at step"
    cp -r k k2
    until=$(($(newest_step k) + 40))
    reference=$(hash_of $unending -i $until --run one)
    train --resume "$work/k" -w 2 -i $until
    equal "resumed with the same: the weights of one process" "$(field weights_hash)" "$reference"
    train --resume "$work/k2" --servers 1 -w 1 -i $until
    equal "resumed with one server: the weights of one process" "$(field weights_hash)" "$reference"
    # The same with --max-restarts.
    begin m $unending -w 2 --sync ps --servers 2 --checkpoint-every 20 --max-restarts 1
    eventually has_checkpoint "$work/m"
    kill -KILL "$(keeper_of "$chief")"
    eventually grep -q 'started again' m.err || bad "--max-restarts: it does not say so: $(head -c 600 m.err)"
    at=$(wc -l <"$work/m/metrics.jsonl")
    eventually at_step m $((at + 10)) || bad "--max-restarts: it does not go on: $(head -c 600 m.err)"
    ends_as_alone "--max-restarts" "$chief" m.out $unending
    # A signal: a checkpoint of all parts, everybody goes.
    begin t $unending -w 2 --sync ps --servers 2
    eventually at_step t 10
    ends_as_alone "SIGTERM" "$chief" t.out $unending
    until=$(($(newest_step t) + 40))
    train --resume "$work/t" -i $until
    equal "SIGTERM, resumed: the weights of one process" "$(field weights_hash)" "$(hash_of $unending -i $until --run two)"
    train $unending -i 40 --run bad --lr 1e6 -w 2 --sync ps --servers 2
    one_line_error "a loss that is not finite" 5 "layer"
fi

if [ "$part" = asleep ]; then
    # Nobody else has its part, so a server that sleeps, for longer than a worker might, holds all up, and nothing more.
    begin z $unending -w 2 --sync ps --servers 2 --lease 0.5
    eventually at_step z 10
    keeper=$(keeper_of "$chief")
    kill -STOP "$keeper"
    sleep 1.5
    kill -CONT "$keeper"
    at=$(wc -l <"$work/z/metrics.jsonl")
    eventually at_step z $((at + 10))
    equal "a server slept for three leases: it goes on" "$?" 0
    ends_as_alone "a server slept for three leases" "$chief" z.out $unending
    begin y $unending -w 2 --sync ps --servers 2 --timeout 2 --checkpoint-every 20 -q
    eventually has_checkpoint "$work/y"
    keeper=$(keeper_of "$chief")
    kill -STOP "$keeper"
    wait "$chief"
    code=$?
    { kill -KILL "$keeper" && kill -CONT "$keeper"; } 2>/dev/null
    equal "a server that does not wake up: exit code" $code 6
    # The other server and the workers wait for it as long; who says so first is chance.
    if grep -qE 'server 1 .*(has not answered for|for) 2 s \(--timeout\)' y.err; then ok "it is named: $(grep -m 1 'server 1 ' y.err)"
    else bad "a server that does not wake up is not named: $(head -c 600 y.err)"; fi
    until=$(($(newest_step y) + 40))
    train --resume "$work/y" -w 2 -i $until --timeout 60
    equal "a server that does not wake up, resumed: the weights of one process" "$(field weights_hash)" "$(hash_of $unending -i $until --run one)"
fi

if [ "$part" = hand ]; then
    # By hand, with keys. The chief is killed and comes back; servers and workers wait for it.
    "$lockstep" server $unending --servers 3 --key keys/server.key --listen 127.0.0.1:0 --run "$work/h" --checkpoint-every 20 --log-every 1 \
        --timeout 60 --json >h.out 2>h.err </dev/null &
    chief=$!
    pids+=("$chief")
    if ! eventually grep -qs '^parameter server at' h.err; then bad "the server does not listen"; fi
    address=$(sed -n 's/^parameter server at \([^ ]*\) .*/\1/p' h.err)
    for i in 1 2; do
        "$lockstep" server --chief "$address" --key keys/server.key -t 1 --timeout 60 >"k$i.out" 2>"k$i.err" </dev/null &
        keeper=$!
        pids+=("$keeper")
        "$lockstep" train --server "$address" --key keys/worker.key -t 1 --timeout 60 >"w$i.out" 2>"w$i.err" </dev/null &
        worker=$!
        pids+=("$worker")
    done
    eventually has_checkpoint "$work/h"
    "$lockstep" server --chief "$address" --key keys/server.key -t 1 >out 2>err </dev/null
    code=$?
    one_line_error "a fourth server is not needed" 2 "has 3 servers and needs no more"
    "$lockstep" server --chief "$address" --key keys/worker.key -t 1 >out 2>err </dev/null
    code=$?
    one_line_error "a worker's key does not make a server" 2 "cannot listen"
    kill -KILL "$chief"
    wait "$chief" 2>/dev/null
    # Meanwhile another server is sent what it should not believe: nothing is answered, and nothing of it is in the weights.
    there=$(sed -n 's/.*workers find it at //p' k1.err)
    for kind in raw keyless insider; do
        [ -x "$programs/stranger" ] || continue
        "$programs/stranger" $kind "$there" 200 keys/worker.key >out.s 2>err.s
        equal "a stranger ($kind): $(cat out.s err.s)" "$?" 0
    done
    until=$(($(newest_step h) + 60))
    "$lockstep" server --resume "$work/h" -i $until --key keys/server.key --listen "$address" --json >h.out 2>h.err </dev/null
    equal "the chief was killed and came back: exit code" "$?" 0
    equal "the chief was killed and came back: the weights of one process" "$(field weights_hash h.out)" "$(hash_of $unending -i $until --run one)"
    wait "$keeper"
    equal "a server by hand ends with the training" "$?" 0
    wait "$worker"
    equal "a worker by hand ends with the training" "$?" 0
    has "a server says what it is" k1.err "of 3 for $address: lenet5 on digits"
fi
finish
