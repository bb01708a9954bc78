#!/usr/bin/env bash
# predict.sh LOCKSTEP: `lockstep predict`: the table, the picture, JSON that keeps the laws, units that are refused, the probe inside a
# job, and what `train` on two machines tells before and after.
# test: sanitize
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"

run() { # run COMMAND...: leaves out, err, code
    "$@" >out 2>err </dev/null
    code=$?
}
predict() { run "$lockstep" predict lenet5 -b 32 -t 1 --seconds 0.02 "$@"; }

# The table, and the sentence at its end.
predict --bandwidth 10Mbit --latency 1ms
equal 'a slow network: exit code' "$code" 0
equal 'a slow network: a row for each number of workers' "$(grep -cE '^ +(1|2|3|4|8|16|32|64|128|256|512|1024) +[0-9]+ +[0-9.]+ ' out)" 12
has 'a slow network: the verdict' out '2 machines over 10Mbit would be slower than one: 61.7 k parameters need'
predict
equal 'no network: exit code' "$code" 0
has 'no network: common ones' out '100GbE  loopback'

# The picture.
predict --network 10gbe -o plot.svg
equal 'plot: exit code' "$code" 0
if python3 -c 'import sys, xml.dom.minidom as m; d = m.parse("plot.svg"); sys.exit(len(d.getElementsByTagName("circle")) < 12)'; then
    ok 'plot: well formed, points of the lines'
else
    bad "plot: $(head -c 300 plot.svg)"
fi
predict -o plot.gif
one_line_error 'plot as another format' 2 '.svg'
predict -o no/such/folder/plot.svg
one_line_error 'plot into a folder that is not there' 1 'no/such/folder'

# JSON, and the laws on what was really measured.
cat >laws.py <<'END'
import json, sys
r = json.load(open("out"))
def check(what, is_true):
    if not is_true: print(what); sys.exit(1)
check("networks", len(r["networks"]) == int(sys.argv[1]))
check("bytes", r["profile"]["bytes"] > r["parameters"] / 4)
for net in r["networks"]:
    check("algorithms", [a["algorithm"] for a in net["algorithms"]] == ["ring", "tree", "hierarchical", "ps", "async"])
    for a in net["algorithms"]:
        check("points", [p["workers"] for p in a["points"]] == [1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
        one = a["points"][0]
        check("one worker is silent", one["communicate_ms"] == 0 and one["wire_bytes"] == 0 and one["speedup"] == 1)
        for p in a["points"]:
            extra = r["servers"] if a["algorithm"] in ("ps", "async") else 0
            check(f"speed-up {p['speedup']} of {p['workers']}", p["speedup"] <= p["workers"] + extra)
            total = p["compute_ms"] + p["communicate_ms"] + p["wait_ms"]
            check(f"parts {total} of {p['step_ms']}", abs(total - p["step_ms"]) < 1e-6 * p["step_ms"])
            if a["algorithm"] != "async": check("busy threads", p["busy_threads"] == min(r["shards"], p["workers"] * r["threads"]))
            check("finite", 0 < p["step_ms"] < 1e9)
END
law() { if text=$(python3 laws.py "$2" 2>&1); then ok "$1"; else bad "$1: $text"; fi; }
predict --json -q
law 'json over common networks' 5
predict --json -q --network 1GbE --servers 4 --procs-per-node 2
law 'json over one network' 1
before=$(python3 -c 'import json; print(int(json.load(open("out"))["profile"]["bytes"]))')
# Of what is told in full --sync decides; more servers are never slower, a bound of staleness holds.
predict --network 1GbE --sync ps
if grep -q -- '---- ps: a parameter server' out && [ "$code" = 0 ]; then ok '--sync ps: told in full'; else bad "--sync ps: $(head -8 out)"; fi
predict --json -q --network 1GbE --sync ssp:2
cat >ways.py <<'END'
import json
r = json.load(open("out"))
by = {a["algorithm"]: a["points"] for a in r["networks"][0]["algorithms"]}
assert r["sync"] == "ssp:2", r["sync"]
assert [p["staleness"] for p in by["async"]][:6] == [0, 1, 2, 2, 2, 2], by["async"]
assert by["ps"][4]["communicate_ms"] > by["ps"][1]["communicate_ms"] > 0, by["ps"]
END
if text=$(python3 ways.py 2>&1); then ok '--sync ssp:2 as JSON'; else bad "--sync ssp:2: $text"; fi
predict --network 1GbE --sync local:8
if grep -q -- '---- local: copies that are averaged' out && [ "$code" = 0 ]; then ok '--sync local:8: told in full'; else bad "--sync local:8: $(cat err; head -8 out)"; fi
predict --json -q --network 1GbE --sync local:8
cat >local.py <<'END'
import json
r = json.load(open("out"))
by = {a["algorithm"]: a["points"] for a in r["networks"][0]["algorithms"]}
p, two = r["profile"], by["local"][1]
assert r["sync"] == "local:8", r["sync"]
assert p["averaged"] == 2 * r["parameters"], (p["averaged"], r["parameters"])  # with momentum
assert 4 < p["averaged_bytes"] / p["averaged"] <= 8.2, p
assert by["local"][0]["wire_bytes"] == 0 and by["local"][0]["speedup"] == 1, by["local"][0]
expected = (p["averaged_bytes"] + 1.5 * p["averaged"] / 128) / 8
assert abs(two["wire_bytes"] / expected - 1) < 0.01, (two["wire_bytes"], expected)
assert abs(two["compute_ms"] + two["communicate_ms"] + two["wait_ms"] - two["step_ms"]) < 1e-6 * two["step_ms"], two
END
if text=$(python3 local.py 2>&1); then ok '--sync local:8 as JSON'; else bad "--sync local:8: $text"; fi
predict --json -q --network 1GbE --compress 8
law 'json with --compress' 1
after=$(python3 -c 'import json; print(int(json.load(open("out"))["profile"]["bytes"]))')
if [ "$after" -lt $((before * 3 / 4)) ]; then ok "--compress 8: $after bytes instead of $before"; else bad "--compress 8: $after bytes, without $before"; fi

# What is refused.
for bad_option in '--latency 0.1' '--latency 1m' '--latency -1ms' '--bandwidth 1' '--bandwidth 1G' '--bandwidth 0Gbit' '--servers 0' '--servers 65' \
    '--procs-per-node 0' '--compress 7' '--network token-ring' '--sync ssp' '--sync local' '--compress 8 --sync local:4'; do
    # shellcheck disable=SC2086 # words
    predict $bad_option
    one_line_error "$bad_option" 2 "${bad_option%% *}"
done
predict --latency 1ms
one_line_error '--latency alone' 2 '--bandwidth'
predict --probe
one_line_error '--probe without a job' 2 'name them, as --hosts a,b'
predict --hosts a
one_line_error '--hosts with one machine' 2 'between two machines'
predict --hosts a,b --bandwidth 1Gbit
one_line_error '--hosts and --bandwidth' 2 '--hosts measures the network'
predict --probe --network 1GbE
one_line_error '--probe and --network' 2 'not both'
run "$lockstep" predict lenet5 mnist
one_line_error 'real data' 2 'random images'
run "$lockstep" predict no-such-net
if [ "$code" -ne 0 ] && [ "$code" -lt 128 ]; then ok "no such model: exit code $code"; else bad "no such model: exit code $code"; fi

# Two machines in one: each rank says it is another.
if ! [ -e "$(dirname "$lockstep")/lockstep-openmpi.so" ] || ! command -v mpirun.openmpi >/dev/null; then
    skipped 'jobs: no Open MPI here'
    finish
fi
cat >apart <<'END'
#!/usr/bin/env bash
LOCKSTEP_MACHINE=machine$OMPI_COMM_WORLD_RANK exec "$@"
END
chmod +x apart
# Open MPI keeps memory of its own until the end of the process.
if is_sanitized; then export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"; fi
apart() { run mpirun.openmpi --allow-run-as-root -q -n 2 --oversubscribe --bind-to none ./apart "$lockstep" "$@"; }
apart predict lenet5 -b 32 -t 1 --seconds 0.02 --probe --json -q
equal 'the probe in a job: exit code' "$code" 0
law 'the probe in a job: one answer, and lawful' 1
apart train lenet5 fake:1x28x28:10:512 -b 32 -i 12 -t 1 --no-eval --run two --json
equal 'train on two machines: exit code' "$code" 0
has 'train on two machines: a prediction first' err 'predicted: '
has 'train on two machines: predicted and measured at the end' err 'step: predicted'
two=$(field weights_hash two/result.json)
equal 'the rehearsal leaves no trace in the weights' "$two" "$(hash_of lenet5 fake:1x28x28:10:512 -b 32 -i 12 -t 1 --no-eval --run one)"
# Averages of local SGD: as many bytes as were foretold for two machines, in 16 steps with two averages.
predict --json -q --network 1GbE --sync local:8
foretold=$(python3 -c 'import json; print(int(2 * 16 * json.load(open("out"))["networks"][0]["algorithms"][5]["points"][1]["wire_bytes"]))')
LOCKSTEP_SUMS=packed apart train lenet5 fake:1x28x28:10:512 -b 32 -i 16 -t 1 --no-eval --sync local:8 --run local --json
sent=$(field bytes_sent local/result.json)
if [ "$sent" -gt $((foretold * 85 / 100)) ] && [ "$sent" -lt $((foretold * 115 / 100)) ]; then
    ok "local:8 on two machines: $foretold bytes foretold, $sent sent"
else
    bad "local:8 on two machines: $foretold bytes foretold, $sent sent: $(cat err)"
fi
apart train resnet-small fake:3x32x32:10:64 -b 8 -i 3 -t 1 --no-eval --compress 8 --run two8 --json
two=$(field weights_hash two8/result.json)
equal 'nor does it with batch norm and --compress' "$two" \
    "$(hash_of resnet-small fake:3x32x32:10:64 -b 8 -i 3 -t 1 --no-eval --compress 8 --run one8)"
finish
