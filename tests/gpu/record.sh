#!/usr/bin/env bash
# record.sh LOCKSTEP: what is recorded of the card.
source "$(dirname "$0")/common.sh"
[ "$device" = cuda ] || skip_all "only a card is recorded"
    on seen cuda resnet18 fake:3x32x32:10:2048 --epochs 40 -b 512 --precision bf16 --no-eval --record >/dev/null
    if python3 - seen.cuda/resources.csv <<'PY'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
busy, memory = [float(r["gpu"]) for r in rows if r["gpu"]], [float(r["gpu_mem"]) for r in rows if r["gpu_mem"]]
print(f"    {len(rows)} rows, at most {max(busy, default=0):.0f} % busy, {max(memory, default=0):.0f} MB")
sys.exit(not (busy and max(busy) > 20 and max(memory) > 500))
PY
    then ok "resources.csv has the card's use"; else bad "resources.csv: no card, or an idle one"; fi
    "$lockstep" doctor >doctor.out 2>&1
    has "doctor names the card" doctor.out "NVIDIA"
finish
