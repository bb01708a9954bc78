"""report.py FILE.html [CHECK...]: whether a report is well formed, needs nothing from outside, and tells the numbers of its runs.

CHECK: one=RUN (every number of its tiles), layers=RUN (each of them), ratio=RUN,RUN (the speeds of two groups), text=TEXT, no=TEXT (in what a reader sees).
"""
import html.parser
import json
import re
import sys

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags, self.errors = [], [], set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "href", "srcset"):
                self.errors.append(f"<{tag} {name}={value}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text.append(data)


def grouped(value):
    return f"{value:,.0f}"


def tiles_of(run):
    result = json.load(open(f"{run}/result.json"))
    return [f"{100 * result['test_accuracy']:.2f} %", f"{100 * result['train_accuracy']:.2f} %", grouped(result["images_per_second"]),
            result["weights_hash"][:8], grouped(result["steps"]) + " steps", f"loss {result['test_loss']:.4g}"]


def layers_of(run):
    """Every layer of the result is there, and the shares are all of the time."""
    layers = json.load(open(f"{run}/result.json"))["layers"]
    if abs(sum(row["share"] for row in layers) - 1) > 1e-6 or not any(row["backward_seconds"] > 0 for row in layers):
        raise SystemExit(f"layers: {layers}")
    return [row["layer"] for row in layers]


def main():
    path, *checks = sys.argv[1:]
    raw = open(path, encoding="utf-8").read()
    reader = Reader()
    reader.feed(raw)
    reader.close()
    problems = list(reader.errors)
    if reader.open:
        problems.append(f"left open: {reader.open}")
    if "script" in reader.tags or re.search(r"@import|url\(|https?://(?!www\.w3\.org/2000/svg)", raw):
        problems.append("a script, or something from outside")
    text = " ".join(" ".join(reader.text).split())
    for check in checks:
        kind, _, value = check.partition("=")
        wanted = [value]
        if kind == "one":
            wanted = tiles_of(value)
        elif kind == "layers":
            wanted = layers_of(value)
        elif kind == "ratio":
            a, b = (json.load(open(f"{run}/result.json"))["images_per_second"] for run in value.split(","))
            wanted = [f"{grouped(b)} against {grouped(a)} images/s"]
        for item in wanted:
            if (item in text) != (kind != "no"):
                problems.append(f"{check}: '{item}' is {'there' if kind == 'no' else 'missing'}")
    for problem in problems:
        print(f"{path}: {problem}")
    sys.exit(bool(problems))


main()
