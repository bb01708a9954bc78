#!/usr/bin/env bash
# growth.sh LOCKSTEP [FOLDER [N...]]: many processes that count as machines of their own, on this one: start, agreement, sums, one death, end.
# What one of them costs does not grow with their number; the weights are those of one process.
#
# Counted in CPU time, not on the clock: machines that share the cores of one are late, and must not spend the time with work nobody needs.
# N (4 12): how many; the long form, `tests/dist/growth.sh build/lockstep build 8 32 64`, takes some minutes and makes the table of
# docs/performance.md.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
sizes=("${@:3}")
if [ ${#sizes[@]} -eq 0 ]; then sizes=(4 12); fi
most=${sizes[-1]}
common=(softmax digits -b 64 --shards 64 --no-eval --timeout 300)

# trains N: undisturbed; leaves cpu (ms) and kib of one process, and prints a line of the table
trains() {
    local n=$1 before
    before=$(children_ms)
    train "${common[@]}" -i 20 --checkpoint-every none -w "$n" --mpi-args "$as machines 1 --" --run "$work/$n"
    cpu=$((($(children_ms) - before) / n))
    equal "$n machines: exit code" "$code" 0
    equal "$n machines: weights" "$(field weights_hash)" "$reference"
    read -r kib line < <(python3 - "$n" "$cpu" <<'END'
import json, sys
n, cpu, r = int(sys.argv[1]), int(sys.argv[2]), json.load(open("out"))
s, step = r["seconds"], r["step_seconds"]
print(r["peak_rss_bytes"] // n // 1024, f"{n} machines: start and agreement {s['setup']:.1f} s, a step {1e3 * step['measured']:.0f} ms (predicted "
      f"{1e3 * step['predicted']:.0f}), all {r['total_seconds']:.1f} s; each {cpu} ms of CPU, {r['peak_rss_bytes'] / n / 2**20:.0f} MiB, "
      f"{r['bytes_sent'] / n / 20 / 1e3:.0f} kB sent per step")
END
    )
    note "$line"
}

# dies N: the middle one is killed while all train
dies() {
    local n=$1 victim=$(($1 / 2)) begin
    job "${common[@]}" --epochs 1000000 --checkpoint-every 5 -p 1 -w "$n" --mpi-args "$as machines 1 --" --run "$work/dead$n"
    eventually has_checkpoint "$work/dead$n" || bad "$n machines: they never trained: $(head -c 300 err.bg)"
    kill -KILL "$(rank_pid "$work/dead$n" $victim)" || bad "$n machines: rank $victim was not found"
    begin=$(now_ms)
    job_end
    equal "$n machines, one killed: exit code" "$code" 6
    has "$n machines, one killed: it is named, $(($(now_ms) - begin)) ms later" err "lockstep: rank $victim on "
    leaves_nothing "$n machines, one killed" "$work/dead$n"
}

reference=$(hash_of "${common[@]}" -i 20 --checkpoint-every none --run "$work/one")
trains "${sizes[0]}"
few=$cpu few_kib=$kib
for n in "${sizes[@]:1}"; do trains "$n"; done
if [ "$cpu" -le $((few + few / 4)) ]; then ok "each costs $few ms of CPU among ${sizes[0]}, $cpu among $most"
else bad "each costs $cpu ms of CPU among $most, $few among ${sizes[0]}"; fi
# MPI's own: a segment and buffers for every other process, more or less of them by who came when (60 to 122 MiB in all among 12, the same program).
segments=$((12288 * (most - sizes[0])))
if [ "$kib" -le $((few_kib + few_kib / 10 + segments)) ]; then ok "each has $((few_kib / 1024)) MiB among ${sizes[0]}, $((kib / 1024)) among $most"
else bad "each has $kib KiB among $most, $few_kib among ${sizes[0]}"; fi
if [ $# -ge 3 ]; then
    for n in "${sizes[@]}"; do dies "$n"; done
else
    dies "${sizes[0]}"
fi
finish
