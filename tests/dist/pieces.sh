#!/usr/bin/env bash
# pieces.sh LOCKSTEP PROGRAMS: a parameter server whose sums and parameters travel in pieces, as those of large networks do over a connection
# (tests/unit/test_pieces.c plays its messages one by one). Whoever dies or sleeps in the middle of a push, the weights are those of one
# process; a step of which some pieces were in when the last worker died and the server was stopped is taken back, and the run goes on from there.
# test: timeout=900
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
patience=100
"$lockstep" server --keygen keys >out 2>err || skip_all "this build or machine has no ZeroMQ: $(head -n 1 err)"
parts nodes killed undone

# 3.25 million sums, 6 pieces; little to compute, so that most of a step is on its way
printf 'model wide\ninput any\nflatten\nlinear fc1 4096\nrelu\nlinear fc2 classes\n' >wide.net
common="./wide.net fake:1x28x28:10:64 -b 8 --shards 4 --schedule constant --lr 0.001 --optimizer adamw --no-eval --no-record --seed 5"

lease=1
mortal() { # as worker; its death is no news
    worker
    disown "$pid"
}
steps_now() { if [ -e "$work/$name/metrics.jsonl" ]; then wc -l <"$work/$name/metrics.jsonl"; else echo 0; fi; }
a_moment() { python3 -c 'import random, time; time.sleep(random.uniform(0, 0.15))'; }

if [ "$part" = nodes ]; then
    reference=$(hash_of $common -i 12 --run one)
    for nodes in 1 3; do
        equal "$nodes nodes: the weights of one process" "$(hash_of $common -i 12 --run n$nodes --nodes $nodes --sync ps)" "$reference"
        equal "$nodes nodes: every shard once" "$(value 'sum(w["shards"] for w in r["elastic"]["workers"])')" 48
    done
    lease=1000 serve sent $common -i 12 # nobody is late, and gets them twice
    worker
    worker
    wait "$server"
    equal "by a connection: the weights of one process" "$(field weights_hash sent.out)" "$reference"
    equal "by a connection: parameters travel once per worker and step, and none behind the last" \
        "$(value 'all(w["bytes_received"] < 12.1 * 4 * 3256330 for w in r["elastic"]["workers"])' sent.out)" True
    for more in "--clip-norm 0.5" "--servers 2" "--optimizer sgd --momentum 0.9"; do # the first two travel whole
        equal "3 nodes $more" "$(hash_of $common -i 12 $more --run more --nodes 3 --sync ps)" "$(hash_of $common -i 12 ${more/--servers 2/} --run more1)"
        rm -rf more more1
    done
fi

# Workers die, or sleep for longer than their lease, at any moment; others come.
if [ "$part" = killed ]; then
    reference=$(hash_of $common -i 60 --run one)
    serve killed $common -i 60
    for _ in 1 2 3; do mortal; done
    for trial in 1 2 3 4 5 6; do
        eventually at_step $((trial * 5)) || bad "trial $trial: step $(steps_now)"
        victim=${pids[-1]}
        a_moment
        if [ $((trial % 3)) = 0 ]; then
            kill -STOP "$victim"
            eventually grep -qE 'has not answered for 1 s' killed.err || bad "trial $trial: who sleeps is not missed"
            kill -CONT "$victim"
        else
            kill -KILL "$victim"
        fi
        mortal
    done
    wait "$server"
    equal 'workers killed and asleep: exit code' $? 0
    equal 'workers killed and asleep: the weights of one process' "$(field weights_hash killed.out)" "$reference"
fi

# All workers die, then the server is told to stop: it has nobody who could finish the step. Until that has met a step that was half in.
if [ "$part" = undone ]; then
    is_undone=no
    again=()
    for trial in $(seq 100); do # one of ten does
        serve undone $common --epochs 100000 --checkpoint-every none "${again[@]}"
        again=(--resume "$work/undone")
        mortal
        one=$pid
        mortal
        two=$pid
        eventually at_step $(($(steps_now) + 3)) || bad "trial $trial: step $(steps_now): $(tail -n 3 undone.err)"
        a_moment
        kill -KILL $one $two
        kill -TERM $server
        wait $server
        code=$?
        [ $code = 75 ] || bad "trial $trial: exit code $code instead of 75: $(tail -n 3 undone.err)"
        if grep -q 'is taken back: [1-9]' undone.err; then is_undone=yes; fi
        if [ $code != 75 ] || [ $is_undone = yes ]; then break; fi
    done
    equal "stop $trial met a step that was half in" $is_undone yes
    steps=$(field steps undone.out)
    serve undone $common --epochs 100000 -i $((steps + 5)) --resume "$work/undone"
    mortal
    wait "$server"
    equal 'taken back: exit code' $? 0
    equal 'taken back and resumed: the weights of one process' "$(field weights_hash undone.out)" "$(hash_of $common --epochs 100000 -i $((steps + 5)) --run one)"
fi
finish
