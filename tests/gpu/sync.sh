#!/usr/bin/env bash
# sync.sh LOCKSTEP: the other ways to synchronise, on cards: a parameter server (ps, async, ssp:0; a killed worker; two servers; sums in pieces),
# local:H and --compress: the weights of one process with the same shards, and what ps costs beside all-reduce. All workers share one card.
# From the environment: SYNC (some of: server ways speed).
source "$(dirname "$0")/common.sh"
sync=${SYNC:-server ways speed}
wants() { [[ " $sync " == *" $1 "* ]]; }
if [ "$device" = cuda ]; then large=resnet18 steps=3; else large=resnet-small steps=1; fi
lenet=(lenet5 digits -i 8 -b 64 --crop-pad 2 --shards 4 --no-eval --timeout 60)
resnet=("$large" fake:3x32x32:10:128 -i "$steps" -b 32 --shards 4 --no-eval --timeout 60)
one=$(on one "$device" "${lenet[@]}")
[ -n "$one" ] && ok "one process: $one" || bad "one process: $(tail -n 1 "one.$device.err")"

# --- a parameter server ---
"$lockstep" server --keygen keys >wire.out 2>&1
if [ ! -d keys ]; then
    skipped "a parameter server: $(head -n 1 wire.out)"
elif wants server; then
    for w in 1 2 4; do equal "ps, $w workers" "$(on "ps$w" "$device" "${lenet[@]}" -w $w --sync ps)" "$one"; done
    equal "ps, 2 servers" "$(on servers "$device" "${lenet[@]}" -w 2 --sync ps --servers 2)" "$one"
    equal "async, 1 worker" "$(on async "$device" "${lenet[@]}" -w 1 --sync async)" "$one"
    equal "ssp:0, 2 workers" "$(on ssp "$device" "${lenet[@]}" -w 2 --sync ssp:0)" "$one"
    clipped=(lenet5 digits -i 4 -b 40 --shards 4 --optimizer adamw --clip-norm 0.5 --no-eval --timeout 60)
    equal "ps, 2 workers, AdamW, norm of the gradient" "$(on clip2 "$device" "${clipped[@]}" -w 2 --sync ps)" "$(on clip1 "$device" "${clipped[@]}")"
    for precision in f32 bf16; do
        has_precision $precision || continue
        last_precision=$precision
        alone=$(on "large-$precision" "$device" "${resnet[@]}" --precision $precision)
        for w in 2 4; do
            equal "ps, $large in $precision, $w workers" "$(on "large-$precision$w" "$device" "${resnet[@]}" --precision $precision -w $w --sync ps)" "$alone"
        done
    done
    # by a connection, and in pieces where there are more than a million sums
    "$lockstep" server "${resnet[@]}" --precision "$last_precision" --listen 127.0.0.1:0 --device "$device" --run by-hand --json >hand.out 2>hand.err </dev/null &
    server=$!
    pids+=("$server")
    eventually grep -q "parameter server at" hand.err
    "$lockstep" train --server "$(sed -n 's/.*parameter server at \([0-9.:]*\).*/\1/p' hand.err | head -n 1)" >hand.worker 2>&1 </dev/null || note "$(tail -n 1 hand.worker)"
    wait "$server"
    equal "ps by a connection" "$(field weights_hash hand.out)" "$alone"
    # A worker is killed in the middle; what is left goes on by itself.
    rm -rf killed
    "$lockstep" train lenet5 digits -b 64 --shards 4 --no-eval --log-every 1 -i 1000000 -w 2 --sync ps --device "$device" --timeout 60 --run killed --json >killed.out 2>killed.err </dev/null &
    server=$!
    pids+=("$server")
    eventually has_lines killed/metrics.jsonl 3
    victim=$(pgrep -P "$server" | head -n 1)
    kill -KILL "$victim"
    eventually is_gone "$victim"
    lines=$(wc -l <killed/metrics.jsonl)
    eventually has_lines killed/metrics.jsonl $((lines + 10))
    kill -TERM "$server"
    wait "$server"
    equal "ps, a killed worker, then SIGTERM: exit code" $? 75
    last=$(basename "$(newest_of killed)" .safetensors)
    last=$((10#${last#step-} + 2))
    "$lockstep" train --resume killed -i $last --no-eval -w 2 --device "$device" --json >killed.out 2>killed.err </dev/null || note "$(tail -n 1 killed.err)"
    equal "$last steps, a worker lost in between, resumed" "$(field weights_hash killed.out)" "$(on unbroken "$device" lenet5 digits -b 64 --shards 4 --no-eval -i $last)"
fi

# --- local:H and --compress ---
has_mpi() { command -v mpirun >/dev/null && ls "$build"/lockstep-*mpi*.so >/dev/null 2>&1; }
precision=f32
! has_precision bf16 || precision=bf16
for way in "--sync local:2" "--compress 8" "--compress 16"; do
    wants ways || break
    # shellcheck disable=SC2206 # words
    net=(resnet-small fake:3x32x32:10:128 -i 5 -b 32 --shards 4 --no-eval --timeout 60 --precision $precision $way)
    # shellcheck disable=SC2206
    small=(lenet5 digits -i 5 -b 64 --shards 4 --no-eval --timeout 60 $way)
    [ "$device" = cuda ] || net=("${small[@]}")
    alone=$(on way "$device" "${net[@]}")
    equal "$way, resnet-small in $precision: twice the same" "$(on again "$device" "${net[@]}")" "$alone"
    five=$(on five "$device" "${small[@]}")
    on half "$device" "${net[@]}" -i 3 >/dev/null
    "$lockstep" train --resume "half.$device" -i 5 --no-eval --device "$device" --json >half.out 2>half.err </dev/null || note "$(tail -n 1 half.err)"
    equal "$way, resumed" "$(field weights_hash half.out)" "$alone"
    has_mpi || { skipped "$way, 2 workers: no MPI here"; continue; }
    equal "$way, 2 workers" "$(on way2 "$device" "${net[@]}" -w 2)" "$alone"
    equal "$way, LeNet-5, 2 workers" "$(on five2 "$device" "${small[@]}" -w 2)" "$five"
    differs "$way is another training" "$alone" "$(on plain "$device" "${net[@]:0:${#net[@]}-2}")"
done

# --- what it costs: two workers that share one card, so both are slower than two cards would be ---
if wants speed && [ "$device" = cuda ] && has_mpi && [ -d keys ]; then
    per_second() { python3 -c 'import json, sys; print(round(json.load(open(sys.argv[1]))["images_per_second"]))' "$1" 2>/dev/null; }
    while read -r model data size n bits; do
        cost=("$model" "$data" -b "$size" --shards 2 -i "$n" --precision "$bits" --no-eval --checkpoint-every none --timeout 60)
        on alone "$device" "${cost[@]}" >/dev/null </dev/null
        on nccl "$device" "${cost[@]}" -w 2 >/dev/null </dev/null
        on server "$device" "${cost[@]}" -w 2 --sync ps >/dev/null </dev/null
        equal "$model b$size $bits, one card: images/s alone $(per_second "alone.$device.out"), shared by 2 workers: all-reduce (NCCL) $(per_second "nccl.$device.out"), ps $(per_second "server.$device.out")" \
            "$(field weights_hash "server.$device.out")" "$(field weights_hash "nccl.$device.out")"
    done <<'END'
lenet5 digits 128 400 f32
resnet18 fake:3x32x32:10:1280 128 30 bf16
END
fi
finish
