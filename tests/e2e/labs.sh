#!/usr/bin/env bash
# labs.sh LOCKSTEP: the labs that are part of the program run from start to end at a tiny scale, with a report each. Modes that this build does not
# have, and networks where we are not root, are failed runs that are told; everything else is done.
# test: timeout=1500 cost=200
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"
command -v mpirun >/dev/null || skip_all "mpirun is not installed"

# finished DIR: nothing if every run is done, or failed for a reason that is the machine's or the build's
finished() {
    python3 - "$1" <<'END'
import json, sys
state = json.load(open(sys.argv[1] + "/state.json"))
known = ("this build synchronises by", "only root", "/dev/net/tun")
for job in state["jobs"]:
    if job["state"] == "done":
        result = json.load(open(f'{sys.argv[1]}/{job["dir"]}/result.json'))
        if not result["weights_hash"]: print(job["run"], "has no hash")
    elif not (job["state"] == "failed" and any(k in job["message"] for k in known)):
        print(job["run"], job["state"], job["exit_code"], job["message"])
END
}

# hash DIR RUN
hash() { field weights_hash "$1/runs/$2-r1/result.json"; }

tiny() { # LAB SCALE OPTIONS...: LAB.lab where there is one here
    local lab=$1 scale=$2 said file check name=$1
    shift 2
    if [ -e "$lab.lab" ]; then name=$lab.lab; fi
    "$lockstep" lab run "$name" --stand-in --repeat 1 --scale "$scale" --run "$lab" "$@" >out 2>err </dev/null
    code=$?
    if [ $code -le 1 ]; then ok "$lab: exit code $code"; else bad "$lab: exit code $code: $(tail -n 3 err)"; fi
    equal "$lab: all runs" "$(finished "$lab")" ''
    for check in lab_report lab_figures; do # the report, computed a second time from the files of the runs
        if said=$(python3 "$here/$check.py" "$lab" 2>&1); then ok "$lab: $said"; else bad "$lab: $said"; fi
    done
    for file in report.html report.md; do if [ -s "$lab/$file" ]; then ok "$lab: $file"; else bad "$lab: no $file"; fi; done
}

# smaller LAB SED...: a lab with smaller networks, images and batches, in a file of its own; as it is, it is read and every run of it checked
smaller() {
    local lab=$1
    shift
    "$lockstep" lab run "$lab" --stand-in --only Q99 --run none >out 2>err </dev/null
    code=$?
    one_line_error "$lab: the lab itself is good" 2 "$lab has no question Q99"
    sed "$@" "$here/../../labs/$lab.lab" >"$lab.lab"
    if cmp -s "$lab.lab" "$here/../../labs/$lab.lab"; then bad "$lab: nothing was made smaller"; fi
}

tiny mnist 1/1024
for times in 1.64 1.84; do # 256 and 287 s against 156
    has 'mnist: published times of nodes are compared' mnist/report.md "published, on another machine: $times times"
done
equal 'mnist: of LeNet-5 the accuracy comes first' "$(grep -c '^- Q5: .*accuracy' mnist/report.md)" 1
if grep -q '"is_shaped": true' mnist/runs/ps-3-r1/manifest.json; then # machines of their own, the server on the first
    for run in ps async; do
        equal "mnist: each node of $run is told, the first by the name of whoever tells" \
            "$(grep -oE "^\| $run-[23] \| (this machine|node[0-9]) \|" mnist/report.md | sed 's/this machine/node1/' | sort | tr -d '\n')" \
            "| $run-2 | node1 || $run-2 | node2 || $run-3 | node1 || $run-3 | node2 || $run-3 | node3 |"
    done
else
    skipped 'mnist: no networks here, nodes are plain processes'
fi
smaller svhn -e 's/vary    batch-size 32 64 128/vary    batch-size 64/' # of the competition; one of three batches
tiny svhn 1/2048
equal 'svhn: the same training on any number of nodes' "$(hash svhn nodes-1)" "$(hash svhn cnn)"
if [ -e svhn/runs/nodes-3-r1/result.json ]; then
    equal 'svhn: and on three' "$(hash svhn nodes-3)" "$(hash svhn cnn)"
    equal 'svhn: and on six processes' "$(hash svhn two-each-3)" "$(hash svhn cnn)"
fi
# What varies is not scaled: with smaller batches, and fewer.
smaller gpu -e 's/vary    batch-size .*/vary    batch-size 16 32/' -e 's/batch-size=512/batch-size=24/' -e '/run     weak-128 /,+1d' -e 's/ weak-128//' \
    -e '/weak/s/ shards=4//' -e /published/d -e s/model=resnet18/model=resnet-small/ # a batch so small has no four shards
tiny gpu 1/4096
equal 'gpu: strong scaling is one training' "$(hash gpu strong-4)" "$(hash gpu strong-1)"
differs 'gpu: weak scaling is not' "$(hash gpu weak-512-1)" "$(hash gpu weak-512-4)"
smaller allreduce-vs-ps -e s/model=resnet18/model=resnet-small/
tiny allreduce-vs-ps 1/256
if [ -e allreduce-vs-ps/runs/small-1gbit_0.1ms-ps-r1/result.json ]; then
    equal 'allreduce-vs-ps: when is which better' "$(grep -c '^- Q[1234]: Fastest: ' allreduce-vs-ps/report.md)" 4
    has 'allreduce-vs-ps: and did the forecast know' allreduce-vs-ps/report.md 'The forecast before the first step named the fastest in '
fi
for network in 100mbit_1ms 1gbit_0.1ms 10gbit_0.05ms; do
    equal "allreduce-vs-ps: one training, $network" "$(hash allreduce-vs-ps "small-$network-ps")" "$(hash allreduce-vs-ps "small-$network-allreduce")"
done
equal 'allreduce-vs-ps: threads of each worker, all-reduce and parameter server' \
    "$(for one in allreduce-vs-ps/runs/*/result.json; do field threads "$one"; done | sort -u)" 1
equal 'allreduce-vs-ps: and with a slow node' "$(hash allreduce-vs-ps mixed-ps)" "$(hash allreduce-vs-ps even-allreduce)"
# Of 224x224 images nearly all time goes into drawing and writing weights of the first full layer; so it does in any VGG.
smaller alexnet-vgg -e s/fake:3x224x224:1000/fake:3x64x64:10/ -e s/model=vgg16/model=resnet-small/
tiny alexnet-vgg 1/1024
equal 'alexnet-vgg: two and four workers train what one does' "$(hash alexnet-vgg alexnet-2) $(hash alexnet-vgg alexnet-4)" \
    "$(hash alexnet-vgg alexnet) $(hash alexnet-vgg alexnet)"
equal 'alexnet-vgg: checkpoints change nothing' "$(hash alexnet-vgg alexnet-checkpoints)" "$(hash alexnet-vgg alexnet)"
finish
