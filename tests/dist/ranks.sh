#!/usr/bin/env bash
# ranks.sh LOCKSTEP: what every rank did, in ranks.csv, in result.json and for people: all images are somebody's, the parts of a rank's
# time add up, rows add up to the sums, a resumed run has each step once.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
# wrong RUN STEPS...: nothing, if the rows of its ranks are right and end at these steps
wrong() {
    python3 - "$@" <<'END'
import csv, json, sys
run, ends = sys.argv[1], [int(s) for s in sys.argv[2:]]
rows = list(csv.DictReader(open(run + "/ranks.csv")))
result = json.load(open(run + "/result.json"))
n = result["workers"]
parts = "load compute update communicate wait checkpoint evaluate other".split()
def say(*what): print(run, *what)
if [(int(r["step"]), int(r["rank"])) for r in rows] != [(s, k) for s in ends for k in range(n)]: say("rows", [r["step"] for r in rows])
if sum(int(r["images"]) for r in rows) != result["images"]: say("images", result["images"], [r["images"] for r in rows])
for r in rows:
    if abs(sum(float(r[p]) for p in parts) - float(r["seconds"])) > 0.01 * float(r["seconds"]) + 0.01: say("a row's parts", r)
    if r["loss"] != rows[rows.index(r) // n * n]["loss"]: say("ranks with other losses")
for k, rank in enumerate(result["ranks"]):
    if rank["rank"] != k or sum(rank[p] for p in parts + ["setup"]) > 1.01 * rank["total_seconds"] or rank["compute"] <= 0: say("rank", rank)
    if rank["epoch"] != int(rows[-1]["epoch"]): say("a rank's epoch", rank["epoch"])
    mine = [r for r in rows if r["rank"] == str(k) and int(r["step"]) > (ends[-2] if len(ends) > 2 else 0)]
    if len(ends) < 3 and sum(int(r["images"]) for r in mine) != rank["images"]: say("a rank's images", rank["images"], mine)
if sum(r["bytes_sent"] for r in result["ranks"]) > result["bytes_sent"]: say("bytes")
END
}
"$lockstep" train lenet5 fake:1x28x28:10:640 -b 64 -i 15 -w 2 --run "$work/a" >out 2>err || bad "exit $?: $(tail -n 1 err)"
equal 'an epoch and a half' "$(wrong a 10 15)" ''
has 'a table for people' out '  epoch rank    loss accuracy       lr   images    time compute   comm.     sent'
equal 'of 80 columns at most' "$(sed -n '/^  epoch rank /,/^$/p' out | awk 'length > 80')" ''
equal 'with the epoch under way' "$(sed -n '/^  epoch rank /,/^$/p' out | awk 'NF > 9 && $1 != "epoch" {print $1 ":" $2}' | tr '\n' ' ')" '2:0 2:1 '
"$lockstep" train --resume "$work/a" -i 25 >out 2>err || bad "exit $?: $(tail -n 1 err)"
equal 'a resumed run goes on' "$(wrong a 10 15 20 25)" ''
"$lockstep" train lenet5 fake:1x28x28:10:640 -b 64 --epochs 1 -w 2 --run "$work/b" --mpi-args "$as machines 1 --" --sync local:3 >out 2>err ||
    bad "exit $?: $(tail -n 1 err)"
equal 'two machines that train apart' "$(wrong b 10)" ''
"$lockstep" train lenet5 fake:1x28x28:10:640 -b 64 --epochs 1 --run "$work/c" --no-record >out 2>err
equal 'one worker: no table' "$(grep -c '^  epoch rank ' out)" 0
if [ ! -e c/ranks.csv ]; then ok 'no file with --no-record'; else bad 'a file with --no-record'; fi
"$lockstep" train softmax digits -b 64 --shards 2 -i 1 --no-eval --checkpoint-every none -w 3 --run "$work/d" >out 2>err || bad "exit $?: $(tail -n 1 err)"
has 'more workers than shards' err 'warning: 3 workers but only 2 shards in a batch of 64: 1 of them without work in every step; use -w 2, or --shards 3'
# A server's workers: until the training begins they set up, they do not wait for it.
"$lockstep" train softmax fake:1x8x8:4:400 -b 16 -i 10 -w 2 --sync ps --no-eval --checkpoint-every none --run "$work/e" >out 2>err || bad "exit $?: $(tail -n 1 err)"
equal 'the time of a server'"'"'s workers' "$(python3 - e/result.json <<'END'
import json, sys
server, *workers = json.load(open(sys.argv[1]))["ranks"]
for w in workers:
    training = server["total_seconds"] - server["setup"]
    if w["wait"] + w["compute"] > 1.01 * training + 0.001: print("waited", w["wait"], "computed", w["compute"], "of", training)
    if abs(w["setup"] + w["wait"] + w["compute"] - w["total_seconds"]) > 0.001: print("parts of", w)
END
)" ''
finish
