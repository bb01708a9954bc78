"""trace.py FILE RESULT RANKS: reads a trace as a strict reader would, and prints what is wrong with it: nothing, if all is well."""
import json
import sys


def check(events, result, n_ranks):
    lanes, names = {}, {}
    for e in events:
        assert e["ph"] in "XMCi", e
        if e["ph"] == "M" and e["name"].endswith("_name"):
            names[e["name"], e["pid"], e["tid"]] = e["args"]["name"]
        if e["ph"] == "X":
            assert e["ts"] >= 0 and e["dur"] >= 0, e
            lanes.setdefault((e["pid"], e["tid"]), []).append((round(e["ts"] * 1000), -round(e["dur"] * 1000), e))
    ranks = sorted({pid for pid, _ in lanes})
    assert ranks == list(range(n_ranks)), ranks
    for rank, tid in lanes:
        assert names["process_name", rank, 1] == "rank %d" % rank
        assert names["thread_name", rank, tid]
    for spans in lanes.values():  # they nest
        open_until = []
        for start, minus, e in sorted(spans, key=lambda s: s[:2]):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or start - minus <= open_until[-1], ("it does not nest", e)
            open_until.append(start - minus)
    for rank in ranks:
        of = [e for (pid, _), spans in lanes.items() if pid == rank for _, _, e in spans]
        steps = sorted((e["ts"], e["dur"]) for e in of if e["cat"] == "step")
        assert len(steps) == result["steps"], (rank, len(steps))
        kinds = {e["cat"] for e in of}
        assert {"setup", "step", "load", "compute", "op", "round"} <= kinds, (rank, kinds)
        assert {"conv1", "fc1", "loss"} <= {e["name"] for e in of if e["cat"] == "op"}, rank
        told = [e["args"] for e in events if e["ph"] == "i" and e["pid"] == rank]
        assert len(told) == 1 and told[0]["lost"] == 0, told
        if rank == 0:
            seconds = sum(dur for _, dur in steps) / 1e6
            assert abs(seconds - result["train_seconds"]) < 0.01 * result["train_seconds"], seconds
            assert {"checkpoint", "write"} <= kinds, kinds
            first = steps
        else:  # one clock: the ranks meet in every step, so on none it ends before it has begun on the other
            error = told[0]["clock_error_us"]
            overlap = min(min(a[0] + a[1] - b[0], b[0] + b[1] - a[0]) for a, b in zip(first, steps))
            assert overlap > -error, ("a step that ends before it begins elsewhere", overlap, error)
    assert any(e["ph"] == "C" and e["name"] == "speed" and "images/s" in e["args"] for e in events)


try:
    text = open(sys.argv[1]).read()
    if not text.endswith("]\n"):  # killed: as a tracing reader takes it
        assert len(sys.argv) < 3, "it has no end"
        text = text[: text.rindex("}") + 1] + "]"
        assert len(json.loads(text)) > 10
    elif len(sys.argv) > 3:
        check(json.loads(text), json.load(open(sys.argv[2])), int(sys.argv[3]))
except (AssertionError, ValueError, KeyError) as e:
    print("%s: %s: %s" % (sys.argv[1], type(e).__name__, e))
