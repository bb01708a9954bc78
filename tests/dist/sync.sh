#!/usr/bin/env bash
# sync.sh LOCKSTEP: with --compress and --sync local:H too, checkpoints, copies in memory, stops and restarts change no bit.
#
# Both have state that belongs to a shard: what rounding left over, and the shard's own copy of the model between two averages. It is in
# the checkpoints, whoever computes the shard, and on however many workers the run goes on.
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; words without blanks
# test: cost=100
source "$(dirname "$0")/lib.sh"
need_mpi

common="lenet5 digits -b 64 --epochs 1 --no-eval --timeout 300"
methods=("--compress 8" "--compress 16" "--sync local:4")
optimizers=("--momentum 0.9" "--optimizer adamw --lr 0.002")
# Copies have an optimizer's state, whichever it is; what rounding left over knows of none, so each width has one of them.
is_left_out() { [[ "$method $optimizer" == '--compress 8 --optimizer'* || "$method $optimizer" == '--compress 16 --momentum'* ]]; }

# same WHAT ARGS...: the row's hash
same() {
    local what=$1
    shift
    rm -rf "$work/r" "$work/r.died"
    equal "$row: $what" "$(hash_of $common $row --run "$work/r" "$@")" "$reference"
}

# A rank dies as soon as its machine has a copy in memory; nothing is on disk. More than one machine: each has a part of the copy.
lose_one() { # as lost
    rm -rf "$work/r" "$work/r.died"
    "$lockstep" train $common $row --run "$work/r" -i 42 --max-restarts 2 --rescue-every 5 --checkpoint-every none --json "${@:4}" \
        --mpi-args "$as machines $3 -- losing $2 --" >out 2>err </dev/null
}
lost() { # WHAT RANK RANKS_PER_MACHINE ARGS...
    local try
    : >err
    for ((try = 0; try < 20; try++)); do # without a restart it was over too soon
        if ! grep -q 'restart 1 of 2' err; then lose_one "$@"; fi
    done
    equal "$row: $1" "$(field weights_hash)" "$reference"
    has "$row: $1: it was restarted" err 'restart 1 of 2'
    has "$row: $1: from memory" err 'out of the memory of'
}

# stopped WORKERS THEN: SIGTERM at whatever step it happens to be, then on with another number of workers
stop_one() { # WORKERS: leaves code
    rm -rf "$work/r"
    "$lockstep" train $common $row -i 400 --log-every 1 -w "$1" --run "$work/r" --json -q >out.bg 2>err.bg </dev/null &
    pid=$!
    pids+=("$pid")
    eventually has_lines "$work/r/metrics.jsonl" 5
    kill -TERM "$pid"
    wait "$pid"
    code=$?
}
stopped() {
    local try
    code=0
    for ((try = 0; try < 20 && code == 0; try++)); do stop_one "$1"; done # 0: it was over too soon
    if [ "$code" -ne 75 ]; then
        bad "$row: SIGTERM with $1 workers: exit code $code, expected 75: $(head -c 300 err.bg)"
        return
    fi
    local at
    at=$(basename "$(newest_of "$work/r")")
    equal "$row: SIGTERM with $1 workers ($at), on with $2" \
        "$(hash_of $common $row -i 400 --log-every 1 -w "$2" --run "$work/r" --resume auto)" "$long"
}

for method in "${methods[@]}"; do
    for optimizer in "${optimizers[@]}"; do
        if is_left_out; then continue; fi
        row="$method $optimizer"
        rm -rf "$work/r"
        reference=$(hash_of $common $row -i 42 --checkpoint-every none --run "$work/r")
        metrics_of "$work/r" >metrics.reference
        note "$row: $reference"
        same '--checkpoint-every 5' -i 42 --checkpoint-every 5
        metrics_of "$work/r" >metrics.now
        same_file "$row: --checkpoint-every 5: the same metrics" metrics.now metrics.reference
        same '2 workers, --checkpoint-every 7' -i 42 -w 2 --checkpoint-every 7
        same '4 workers, --max-restarts' -i 42 -w 4 --max-restarts 1 --rescue-every 3
        same '3 machines, --checkpoint-every 9' -i 42 -w 3 --checkpoint-every 9 --mpi-args "$as machines 1 --"
        train $common $row -i 17 -w 3 --run "$work/r17" # as far as an odd step, on three
        equal "$row: 17 steps with 3 workers, on with 1" "$(hash_of $common $row -i 42 --run "$work/r17" --resume auto)" "$reference"
        rm -rf "$work/r17"
    done
    lost 'a rank of 2 machines is lost' 1 1 -w 2
    lost 'a rank of a machine of 3 is lost' 2 3 -w 3
    long=$(hash_of $common $row -i 400 --run "$work/long")
    rm -rf "$work/long"
    stopped 1 2
    stopped 2 1
done

# --- a checkpoint of before: without what belongs to the shards ---
cat >older.py <<'END'
"""older.py IN OUT: the checkpoint without what the shards carry, as earlier versions wrote it"""
import json, struct, sys

data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header, tensors, at = json.loads(data[8 : 8 + n]), b"", 0
meta = header.pop("__metadata__")
out = {"__metadata__": {k: v for k, v in meta.items() if k not in ("carried_shards", "lockstep.checksum", "lockstep.format")}}
for name, t in header.items():
    begin, end = t["data_offsets"]
    if "/" not in name:
        out[name] = {**t, "data_offsets": [at, at + end - begin]}
        tensors += data[8 + n + begin : 8 + n + end]
        at += end - begin
text = json.dumps(out).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + tensors)
END
for method in '--compress 8' '--sync local:4'; do
    rm -rf "$work/r" "$work/older"
    train $common $method -i 17 --run "$work/r"
    python3 older.py "$(newest_of "$work/r")" older.safetensors
    "$lockstep" train $common $method -i 20 -w 2 --resume older.safetensors --run "$work/older" >out 2>err </dev/null
    equal "$method: a checkpoint of an earlier version goes on" $? 0
    has "$method: and a warning says that bits change" err 'the weights will not be bit for bit those of an unbroken run'
done
leaves_nothing 'all jobs' "$work/r"
finish
