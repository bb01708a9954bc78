#!/usr/bin/env bash
# device_sync.sh LOCKSTEP: every --sync, and --compress, on a device whose memory the host cannot read (tests/plugins/far.c), which is to give
# ref's bits: a parameter server with 1, 2 and 3 workers, a killed worker, several servers, sums in pieces, async and ssp:0; local:H and
# --compress with 1 and 2 workers; all of them stopped and resumed; with launches that are recorded and without.
# test: timeout=1800
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
plugins=$(dirname "$lockstep")/plugins
[ -e "$plugins/lockstep-far.so" ] || skip_all "the test plug-in was not built"
export LOCKSTEP_PLUGINS=$plugins OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
has_mpi() { command -v mpirun >/dev/null && ls "$(dirname "$lockstep")"/lockstep-*mpi*.so >/dev/null 2>&1; }
"$lockstep" server --keygen keys >wire.out 2>&1
has_wire() { [ -d keys ]; }

# on NAME DEVICE ARGS...: trains with one thread; leaves NAME.out and NAME.err; prints the hash. device far+: one that records
on() {
    local name=$1 device=$2
    shift 2
    if [ "$device" = far+ ]; then export LOCKSTEP_FAR_RECORDING=1 device=far; else unset LOCKSTEP_FAR_RECORDING; fi
    rm -rf "$name"
    "$lockstep" train "$@" --device "$device" --threads 1 --run "$name" --json >"$name.out" 2>"$name.err" </dev/null ||
        note "$name on $device: exit $?: $(tail -n 1 "$name.err")" >&2
    field weights_hash "$name.out"
}
# resumed NAME DEVICE ARGS...: the run NAME goes on; prints the hash
resumed() {
    local name=$1 device=$2
    shift 2
    if [ "$device" = far+ ]; then export LOCKSTEP_FAR_RECORDING=1 device=far; else unset LOCKSTEP_FAR_RECORDING; fi
    "$lockstep" train --resume "$name" "$@" --device "$device" --threads 1 --no-eval --json >"$name.out" 2>"$name.err" </dev/null ||
        note "$name resumed: exit $?: $(tail -n 1 "$name.err")" >&2
    field weights_hash "$name.out"
}

small_net net
run=(lenet5 digits -i 5 -b 64 --shards 4 --crop-pad 2 --no-eval)
adamw=(lenet5 digits -i 3 -b 40 --shards 4 --optimizer adamw --clip-norm 0.5 --no-eval)
uneven=(./net fake:1x12x12:4:50 -b 16 --shards 4 --epochs 2 --no-eval) # batch norm, dropout, a small last batch
one=$(on one ref "${run[@]}")
[ -n "$one" ] && ok "ref: $one" || bad "ref: $(tail -n 1 one.err)"
clipped=$(on clipped ref "${adamw[@]}")
rest=$(on rest ref "${uneven[@]}")

# --- a parameter server ---
for device in far far+; do
    has_wire || { skipped "a parameter server: $(head -n 1 wire.out)"; break; }
    equal "$device, one process" "$(on alone $device "${run[@]}")" "$one"
    for w in 1 2 3; do equal "$device, ps, $w workers" "$(on ps$w $device "${run[@]}" -w $w --sync ps)" "$one"; done
    equal "$device, ps, AdamW and a limited norm" "$(on ps-clip $device "${adamw[@]}" -w 2 --sync ps)" "$clipped"
    equal "$device, ps, batch norm, dropout, a small last batch" "$(on ps-rest $device "${uneven[@]}" -w 2 --sync ps)" "$rest"
    equal "$device, ps, 2 servers" "$(on ps-two $device "${run[@]}" -w 2 --sync ps --servers 2)" "$one"
    equal "$device, async, 1 worker" "$(on async $device "${run[@]}" -w 1 --sync async)" "$one"
    equal "$device, ssp:0, 2 workers" "$(on ssp $device "${run[@]}" -w 2 --sync ssp:0)" "$one"
    on half $device "${run[@]}" -i 2 -w 2 --sync ps >/dev/null
    equal "$device, ps, resumed by another number" "$(resumed half $device -i 5 -w 3)" "$one"
done
if has_wire; then
    unset LOCKSTEP_FAR_RECORDING
    equal "its test accuracy" "$(on eval2 far softmax digits -i 3 -b 64 --shards 4 -w 2 --sync ps >/dev/null; field test_accuracy eval2.out)" \
        "$(on eval1 ref softmax digits -i 3 -b 64 --shards 4 >/dev/null; field test_accuracy eval1.out)"

    # A worker that is killed, and one that stays: the weights of one process; then SIGTERM, and on by one process alone.
    long=(softmax digits -b 64 --shards 4 --no-eval --log-every 1 --seed 3)
    LOCKSTEP_FAR_LAG_MS=10 "$lockstep" train "${long[@]}" -i 100000 -w 2 --sync ps --device far --threads 1 --run killed --json >killed.out 2>killed.err </dev/null &
    server=$!
    pids+=("$server")
    eventually has_lines killed/metrics.jsonl 3
    victim=$(pgrep -P "$server" | head -n 1)
    [ -n "$victim" ] && kill -KILL "$victim"
    eventually is_gone "$victim"
    lines=$(wc -l <killed/metrics.jsonl)
    eventually has_lines killed/metrics.jsonl $((lines + 3))
    kill -TERM "$server"
    wait "$server"
    equal "ps, a killed worker, then SIGTERM: exit code" $? 75
    has "the lost worker is told" killed.err "worker"
    last=$(basename "$(newest_of killed)" .safetensors)
    steps=$((10#${last#step-} + 3))
    equal "$steps steps, a worker lost in between, resumed by another number" "$(resumed killed far -i $steps -w 3)" "$(on whole ref "${long[@]}" -i $steps)"

    # More than a million sums, by a connection: they come and go in pieces.
    printf '%s\n' "model big" "input any" flatten "linear fc1 1400" relu "linear fc2 classes" >big
    big=(./big fake:1x28x28:4:24 -b 8 --shards 2 -i 3 --no-eval --momentum 0.9)
    reference=$(on big-one ref "${big[@]}")
    "$lockstep" server "${big[@]}" --listen 127.0.0.1:0 --device far --threads 1 --run big-server --json >big.out 2>big.err </dev/null &
    server=$!
    pids+=("$server")
    eventually grep -q "parameter server at" big.err
    address=$(sed -n 's/.*parameter server at \([0-9.:]*\).*/\1/p' big.err | head -n 1)
    for i in 1 2; do
        "$lockstep" train --server "$address" --threads 1 >"worker$i.out" 2>&1 </dev/null &
        pids+=("$!")
    done
    wait "$server"
    equal "a server by hand: exit code" $? 0
    equal "ps, sums in pieces" "$(field weights_hash big.out)" "$reference"

    # What goes wrong on a worker's device is named, and nothing is trained from it.
    "$lockstep" train lenet5 digits -i 30 --lr 1e6 -b 64 --shards 4 --no-eval --device far --threads 1 -w 2 --sync ps --run nan >nan.out 2>nan.err </dev/null
    equal "ps, a diverging run: exit code" $? 5
    has "it names the layer" nan.err "came out of"
    equal "ps, fewer cards than --gpus: a worker less" "$(LOCKSTEP_FAR_CARDS=1 on few far "${run[@]}" --gpus 2 --sync ps)" "$one"
    has "which says why" few.err "far: 1 cards, none for process 1"
    "$lockstep" train "${run[@]}" --device far --threads 1 -w 2 --sync ps --compress 8 --run no >no.out 2>no.err </dev/null
    equal "ps with --compress: exit code" $? 2
    has "it says which goes with it" no.err "--compress is for --sync allreduce"
fi

# --- local:H and --compress: one process and two, stopped and resumed ---
printf '%s\n' "model wide" "input any" "conv conv1 16 5" "bn bn1" relu "maxpool 2" "dropout 0.1" flatten "linear fc1 40" relu "linear fc2 classes" >wide
for way in "--sync local:2" "--compress 8" "--compress 16 --optimizer adamw"; do
    # shellcheck disable=SC2206 # words
    args=(./wide fake:1x12x12:4:150 -b 16 --shards 4 --epochs 2 --no-eval $way)
    # shellcheck disable=SC2206
    large=(lenet5 digits -i 5 -b 64 --shards 4 --crop-pad 2 --no-eval $way)
    reference=$(on way-one ref "${args[@]}")
    larger=$(on way-large ref "${large[@]}")
    differs "$way is another training" "$reference" "$(on way-none ref "${args[@]:0:9}" "${args[@]:11}")"
    for device in far far+; do
        equal "$device, $way" "$(on way $device "${args[@]}")" "$reference"
        equal "$device, $way, LeNet-5" "$(on way5 $device "${large[@]}")" "$larger"
        on way-half $device "${args[@]}" -i 7 >/dev/null
        equal "$device, $way, resumed" "$(resumed way-half $device --epochs 2 -i 0)" "$reference"
        has_mpi || { skipped "$device, $way, 2 workers: no MPI here"; continue; }
        equal "$device, $way, 2 workers" "$(on way-two $device "${args[@]}" -w 2)" "$reference"
        equal "$device, $way, LeNet-5, 2 workers" "$(on way5-two $device "${large[@]}" -w 2)" "$larger"
        on way-half $device "${args[@]}" -i 7 -w 2 >/dev/null
        equal "$device, $way, begun by 2 workers, resumed by one" "$(resumed way-half $device --epochs 2 -i 0)" "$reference"
    done
done
finish
