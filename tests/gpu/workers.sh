#!/usr/bin/env bash
# workers.sh LOCKSTEP: several workers on one card: the same bits by NCCL, through the host, and alone; compute and communication told apart;
# sums beside backward; one that is killed.
source "$(dirname "$0")/common.sh"
command -v mpirun >/dev/null && ls "$build"/lockstep-*mpi*.so >/dev/null 2>&1 || skip_all "several workers: no MPI here"
# communicates WHAT RESULT: time and bytes of the sums are told, and the parts of the time make the whole
communicates() {
    if python3 - "$2" >communicates.txt 2>&1 <<'PY'
import json, sys
result = json.load(open(sys.argv[1]))
seconds, ranks = result["seconds"], result["ranks"]
parts = sum(v for k, v in seconds.items() if k != "hidden")
print(", ".join(f"{k} {1e3 * seconds[k]:.1f}" for k in ("compute", "communicate", "update", "wait", "load")), "ms;", ranks[0]["bytes_sent"], "bytes")
assert abs(parts - result["total_seconds"]) < 0.02 * result["total_seconds"], f"parts make {parts} of {result['total_seconds']} s"
assert all(r["communicate"] > 0 and r["compute"] > 0 and r["bytes_sent"] > 61706 * 8 * result["steps"] for r in ranks), ranks
PY
    then ok "$1: $(tail -n 1 communicates.txt)"; else bad "$1: $(tail -n 1 communicates.txt)"; fi
}

# killed NAME ARGS...: one of two workers is killed in the middle: the other ends, and says who it was
killed() {
    local name=$1 launcher p
    shift
    "$lockstep" train "$@" -i 10000000 --shards 4 --no-eval --device "$device" -w 2 --timeout 10 --log-every 1 --run "$name" >"$name.out" 2>"$name.err" &
    launcher=$!
    eventually has_lines "$name/metrics.jsonl" 3
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/cwd" 2>/dev/null)" = "$PWD" ] && tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qx 'OMPI_COMM_WORLD_RANK=1' && kill -9 "${p#/proc/}"
    done
    wait $launcher
    equal "$name: exit code when a worker is killed" $? 6
    has "$name: it is named" "$name.err" "rank 1"
}

lenet=(lenet5 digits -i 8 -b 64 --crop-pad 2 --shards 4 --timeout 30)
one=$(on one "$device" "${lenet[@]}" 2>/dev/null)
[ -n "$one" ] && ok "one process: $one" || bad "one process: $(tail -n 1 "one.$device.err")"
for w in 2 4; do
    equal "$w workers" "$(on "w$w" "$device" "${lenet[@]}" -w $w)" "$one"
    equal "$w workers add by NCCL" "$(grep -c "through the host" "w$w.$device.err")" 0
    communicates "$w workers by NCCL" "w$w.$device.out"
done
if [ "$device" = cuda ]; then
    equal "2 workers through the host" "$(LOCKSTEP_NCCL=0 on host "$device" "${lenet[@]}" -w 2)" "$one"
    has "which is said" "host.$device.err" "through the host: NCCL cannot be used by rank 0"
    communicates "2 workers through the host" "host.$device.out"
fi
equal "2 workers, streamed" "$(LOCKSTEP_KEEP_MIB=0 on stream "$device" "${lenet[@]}" -w 2)" "$one"
clipped=(lenet5 digits -i 4 -b 40 --shards 4 --optimizer adamw --clip-norm 0.5 --no-eval --timeout 30)
equal "2 workers, AdamW, norm of the gradient" "$(on clip2 "$device" "${clipped[@]}" -w 2)" "$(on clip1 "$device" "${clipped[@]}")"
small=(resnet-small fake:3x32x32:10:128 -i 3 -b 32 --shards 4 --no-eval --timeout 30)
equal "2 workers, batch norm" "$(on two "$device" "${small[@]}" -w 2)" "$(on bn "$device" "${small[@]}")"
if has_precision bf16; then
    equal "4 workers, bf16" "$(on four16 "$device" "${small[@]}" -w 4 --precision bf16)" "$(on bn16 "$device" "${small[@]}" --precision bf16)"
    # one shard: alone the step is one recording; -w 2 goes phase by phase and must give the same
    whole=(resnet-small fake:3x32x32:10:128 -i 4 -b 32 --precision bf16 --no-eval --timeout 30)
    equal "2 workers and one shard, bf16" "$(on one16 "$device" "${whole[@]}" -w 2)" "$(on whole "$device" "${whole[@]}")"
fi
# Buckets that are added while the last shard is computed: where a card is shared, only if asked for.
if has_precision bf16; then
    [ "$device" != cuda ] || export LOCKSTEP_NCCL_BUCKET=1000000
    large=(resnet18 fake:3x32x32:10:256 -i 6 -b 64 --shards 4 --precision bf16 --no-eval --timeout 30)
    alone=$(on large "$device" "${large[@]}")
    for w in 2 4; do
        equal "$w workers, sums beside backward" "$(on "large$w" "$device" "${large[@]}" -w $w)" "${alone:-none}"
        hidden=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["seconds"]["hidden"])' "large$w.$device.out")
        python3 -c 'import sys; sys.exit(not float(sys.argv[1]) > 0)' "$hidden" && ok "$w workers: sums for $hidden s beside backward" || bad "$w workers: no sums beside backward: $hidden"
    done
    equal "2 workers, every op launched" "$(on traced "$device" "${large[@]}" -w 2 --trace --trace-steps 6)" "${alone:-none}"
    [ "$device" != cuda ] || equal "2 workers, resnet18 through the host" "$(LOCKSTEP_NCCL=0 on largehost "$device" "${large[@]}" -w 2)" "${alone:-none}"
    "$lockstep" train resnet18 fake:3x32x32:10:256 -i 30 --lr 1e6 -b 64 --shards 4 --precision bf16 --device "$device" -w 2 --timeout 30 --run nanlarge >nanlarge.out 2>nanlarge.err
    equal "resnet18, exit code of a diverging run of 2" $? 5
    unset LOCKSTEP_NCCL_BUCKET
    equal "2 workers, resnet18 in one piece" "$(on largewhole "$device" "${large[@]}" -w 2)" "${alone:-none}"
    [ "$device" != cuda ] || equal "2 workers, resnet18 in one piece: nothing beside backward" "$(python3 -c 'import json; print(json.load(open("largewhole.cuda.out"))["seconds"]["hidden"])')" 0.0
fi
on half "$device" lenet5 digits -i 4 -b 64 --crop-pad 2 --shards 4 >/dev/null
"$lockstep" train lenet5 digits --resume "half.$device" -i 8 -b 64 --crop-pad 2 --shards 4 --device "$device" -w 2 --json >half.out 2>half.err || note "$(tail -n 1 half.err)"
equal "resumed by 2 workers" "$(field weights_hash half.out)" "$one"
"$lockstep" train lenet5 digits -i 30 --lr 1e6 --shards 4 --device "$device" -w 2 --timeout 30 --run nan2 >nan2.out 2>nan2.err
equal "exit code of a diverging run of 2" $? 5
has "it names the layer" nan2.err "came out of"
killed killed lenet5 digits -b 64
if has_precision bf16; then LOCKSTEP_NCCL_BUCKET=1000000 killed beside resnet18 fake:3x32x32:10:256 -b 64 --precision bf16; fi
finish
