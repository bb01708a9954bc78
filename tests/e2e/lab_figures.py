"""lab_figures.py LABDIR: whether the pictures of a lab's report show what the files of its runs say.

Measures the drawing itself: the length of every bar and whisker and the place of every point is turned back into a number by the axis that
is drawn beside it, and compared with what lab_report.py computes from the raw files. Exit code 0 if nothing differs by more than a pixel.
"""
import math
import os
import re
import sys
import xml.etree.ElementTree as xml

import lab_report

SVG = "{http://www.w3.org/2000/svg}"
PIXEL = 1.1
BARS = {  # show: (label of the series, measure, scale) of its bars
    "time": [("", "time", 1)],
    "accuracy": [("", "test_accuracy", 100)],
    "bandwidth": [("", "byte_rate", 1e-6)],
    "target": [("", "target_total_seconds", 1)],
    "predicted": [("predicted", "step_seconds.predicted", 1e3), ("measured", "step", 1e3)],
    "communication": [(part, f"seconds.{part}", 1) for part in ("compute", "update", "communicate", "wait", "load")],
}


def number(text):
    found = re.match(r"-?[\d.]+(?:e[-+]?\d+)?", text.replace(",", ""))
    return float(found.group(0)) if found else math.nan


def points(path):
    """Of an absolute path of straight lines."""
    values = [float(v) for v in re.findall(r"-?[\d.]+", path)]
    return list(zip(values[::2], values[1::2]))


def tips(root):
    """(text, what is drawn) of everything that has a tip."""
    for group in root.iter(SVG + "g"):
        title = group.find(SVG + "title")
        if title is not None:
            yield title.text or "", [e for e in group if e.tag != SVG + "title"]


class BarAxis:
    """Numbers below a grid of upright lines."""

    def __init__(self, root):
        grid = [points(e.get("d"))[0][0] for e in root.iter(SVG + "path") if e.get("class") == "lsk3"]
        ticks = {float(e.get("x")): number(e.text) for e in root.iter(SVG + "text") if e.get("text-anchor") == "middle"}
        known = sorted((x, ticks[x]) for x in grid if x in ticks)
        (self.x, self.value), (x, value) = known[0], known[-1]
        self.per_pixel = (value - self.value) / (x - self.x)

    def place(self, value):
        return self.x + (value - self.value) / self.per_pixel


class Scale:
    """data-x or data-y of a panel: pixels from and to, values low and high."""

    def __init__(self, text):
        a, b, low, high, kind, *_ = text.split()
        self.a, self.b, self.low, self.high, self.is_log = float(a), float(b), float(low), float(high), kind == "log"

    def place(self, value):
        if self.is_log:
            value, low, high = (math.log(max(v, 1e-300)) for v in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        return self.a + (self.b - self.a) * (value - low) / (high - low)


class Check:
    def __init__(self, folder):
        self.folder, self.problems, self.n = folder, [], 0

    def near(self, what, place, wanted):
        self.n += 1
        if not abs(place - wanted) <= PIXEL:
            self.problems.append(f"{what}: drawn at {place:.1f}, expected at {wanted:.1f}")

    def same(self, what, found, wanted):
        self.n += 1
        if found != wanted:
            self.problems.append(f"{what}: {found}, expected {wanted}")

    def picture(self, name, is_expected):
        path = f"{self.folder}/report/{name}.svg"
        self.same(f"{name}: is there", os.path.exists(path), is_expected)
        return xml.parse(path).getroot() if is_expected and os.path.exists(path) else None

    def bars(self, question, show):
        kinds, is_stacked = BARS[show], show == "communication"
        runs = [r for r in question.q["runs"] if question.spread(r, kinds[0][1]).n]
        root = self.picture(f"{question.q['id']}-{show}", bool(runs))
        if root is None:
            return
        axis, drawn = BarAxis(root), {}
        for text, elements in tips(root):
            drawn[text.rsplit(": ", 1)[0]] = elements[0]
        wanted = {}
        for run in runs:
            end = 0
            for label, measure, scale in kinds:
                spread = question.spread(run, measure)
                value = spread.median * scale if spread.n else math.nan
                if math.isnan(value) or (is_stacked and value <= 0):
                    continue
                wanted[f"{run}, {label}" if label else run] = (end, end + value, spread, scale)
                end += value if is_stacked else 0
        self.same(f"{show}: bars", sorted(drawn), sorted(wanted))
        caps = [points(e.get("d")) for e in root.iter(SVG + "path") if e.get("class") == "lsk5"]
        for name, (start, end, spread, scale) in wanted.items():
            if name not in drawn:
                continue
            x, width, y, height = (float(drawn[name].get(key)) for key in ("x", "width", "y", "height"))
            place = axis.place(end)
            if is_stacked:
                self.near(f"{show}, {name}: begins", x, axis.place(start))
            if width > 0.5:
                self.near(f"{show}, {name}: ends", x + width, place)
            whisker = [p for p in caps if p[0][1] == p[1][1] and y <= p[0][1] <= y + height]
            if is_stacked:  # of all parts together
                spread = question.spread(name.rsplit(", ", 1)[0], "spent")
            self.same(f"{show}, {name}: whiskers", len(whisker), int(spread.low < spread.high))
            for (at, _), value in zip(whisker[0] if whisker else [], (spread.low, spread.high)):
                self.near(f"{show}, {name}: whisker", at, axis.place(value * scale))

    @staticmethod
    def common_name(names):
        """The words, apart by dashes, that all begin with; without any the first name."""
        parts = [name.split("-") for name in names]
        same = 0
        while all(len(p) > same and p[same] == parts[0][same] for p in parts):
            same += 1
        return "-".join(parts[0][:same]) or names[0]

    def speedups(self, question):
        members, ideal, bands = {}, {}, []
        for run in question.q["runs"]:
            if question.reference(run) and question.spread(run, "rate").n:
                members.setdefault(question.reference(run), []).append(run)
        families = {}
        for one, runs in members.items():
            base = question.spread(one, "rate").median
            label = self.common_name([one] + runs)
            families[label] = [(question.workers(one), 1)] + [(question.workers(r), question.spread(r, "rate").median / base) for r in runs]
            rates = [question.spread(r, "rate") for r in [one] + runs]
            if any(rate.low / rates[0].high < rate.high / rates[0].low for rate in rates[1:]):
                bands.append([min(rate.low / rates[0].high for rate in rates[1:]), max(rate.high / rates[0].low for rate in rates[1:])])
            for workers, most in [(question.workers(one), 1)] + [(question.workers(r), question.ideal(r)) for r in runs]:
                ideal[workers] = max(most, ideal.get(workers, 0))
        root = self.picture(f"{question.q['id']}-speed-up", bool(families))
        if root is None:
            return
        panel = next(e for e in root.iter(SVG + "svg") if e.get("data-x"))
        x, y = Scale(panel.get("data-x")), Scale(panel.get("data-y"))
        drawn = {}
        for text, elements in tips(root):
            if " at " in text and elements[0].tag == SVG + "circle":
                drawn.setdefault(text.rsplit(": ", 1)[0], []).append((float(elements[0].get("cx")), float(elements[0].get("cy"))))
        self.same("speed-up: lines", sorted(drawn), sorted(families))
        for one, made in families.items():
            made = sorted(made)
            self.same(f"speed-up, {one}: points", len(drawn.get(one, [])), len(made))
            for (cx, cy), (workers, ratio) in zip(sorted(drawn.get(one, [])), sorted(made, key=lambda p: (p[0], -y.place(p[1])))):
                self.near(f"speed-up, {one}: across", cx, x.place(workers))
                if len({w for w, _ in made}) == len(made):
                    self.near(f"speed-up, {one}: up", cy, y.place(ratio))
        areas = [points(e.get("d").rstrip("Z")) for e in root.iter(SVG + "path") if e.get("fill-opacity")]
        self.same("speed-up: bands", len(areas), len(bands))
        for area, (low, high) in zip(areas, bands):
            if high >= 1 >= low:  # else the first point, 1, is beyond it
                self.near("speed-up, band: from", max(p[1] for p in area), y.place(low))
                self.near("speed-up, band: to", min(p[1] for p in area), y.place(high))
        dotted = [(text, e) for text, elements in tips(root) for e in elements if e.tag == SVG + "path" and text == "ideal"]
        self.same("speed-up: ideal lines", len(dotted), 1)
        for (px, py), workers in zip(points(dotted[0][1].get("d")) if dotted else [], sorted(ideal)):
            self.near("speed-up, ideal: across", px, x.place(workers))
            self.near("speed-up, ideal: up", py, y.place(ideal[workers]))

    def lines(self, root):
        """(name of the x axis, scales, {label: points}) of every panel."""
        for panel in root.iter(SVG + "svg"):
            if not panel.get("data-x"):
                continue
            drawn = {}
            for text, elements in tips(panel):
                for e in elements:
                    if e.tag == SVG + "path" and " at " not in text:
                        drawn.setdefault(text, []).extend(points(e.get("d")))
                    elif e.tag == SVG + "circle" and " at " not in text:
                        drawn.setdefault(text, []).append((float(e.get("cx")), float(e.get("cy"))))
            yield panel.get("data-name"), Scale(panel.get("data-x")), Scale(panel.get("data-y")), drawn

    @staticmethod
    def logged(runs, split):
        """Losses of training (of its epochs, where no step was logged), or accuracies of tests."""
        made = {}
        for run, lines in runs.items():
            taken = [m for m in lines if m["split"] == split] or [m for m in lines if split == "train" and m["split"] == "epoch"]
            values = [m["loss" if split == "train" else "accuracy"] for m in taken]
            made[run] = [v for v in values if math.isfinite(v)]
        return made

    def curves(self, question):
        runs = {r: question.first(r).metrics for r in question.q["runs"] if question.first(r)}
        for suffix, name in (("", "epoch"), ("-2", "time")):
            panels = [split for split in ("train", "test") if any(len(values) > 1 for values in self.logged(runs, split).values())]
            root = self.picture(f"{question.q['id']}-curves{suffix}", bool(panels))
            if root is None:
                continue
            drawn_panels = list(self.lines(root))
            self.same(f"curves over {name}: panels", len(drawn_panels), len(panels))
            for (_, _, y, drawn), split in zip(drawn_panels, panels):
                wanted = {r: v for r, v in self.logged(runs, split).items() if v}
                self.same(f"curves over {name}, {split}: lines", sorted(drawn), sorted(wanted))
                for run, values in wanted.items():
                    places = sorted(drawn.get(run, []))
                    if not places:
                        continue
                    self.near(f"curves over {name}, {split}, {run}: the last point", places[-1][1], y.place(values[-1]))
                    if split == "test" and len(values) < 100:
                        self.same(f"curves over {name}, {run}: tests", len(places), len(values))
            n_repeats = max(len(question.runs[r]) for r in runs)
            for panel, split in zip((p for p in root.iter(SVG + "svg") if p.get("data-x")), panels):
                n_thin = sum(e.get("stroke-width") == "0.7" for e in panel.iter(SVG + "path"))
                n_lines = sum(len(v) > 1 for v in self.logged(runs, split).values())
                self.same(f"curves over {name}, {split}: thin lines", n_thin, n_lines * (n_repeats - 1))

    def resources(self, question):
        runs = {r: question.first(r) for r in question.q["runs"] if question.first(r)}
        runs = {r: h for r, h in runs.items() if h.resources and len(h.resources[0]) > 1}
        root = self.picture(f"{question.q['id']}-resources", bool(runs))
        if root is None:
            return
        for (_, _, y, drawn), what in zip(self.lines(root), ("cpu", "mem")):
            self.same(f"resources, {what}: lines", sorted(drawn), sorted(list(runs)[:12]))
            for run in drawn:
                most = min(p[1] for p in drawn[run])
                if what == "cpu":
                    self.near(f"resources, {run}: most CPU", most, y.place(runs[run].cpu_peak()))
                elif len(runs[run].resources) == 1:
                    peak = max(float(s["mem_real"]) for s in runs[run].resources[0])
                    self.near(f"resources, {run}: most memory", most, y.place(peak * 1048576))

    def question(self, question):
        before = len(self.problems)
        for show in sorted(question.q["show"]):
            if show in BARS:
                self.bars(question, show)
            elif show in ("speed-up", "curves", "resources"):
                {"speed-up": self.speedups, "curves": self.curves, "resources": self.resources}[show](question)
        self.problems[before:] = [f"{question.q['id']}: {p}" for p in self.problems[before:]]


def main():
    folder = sys.argv[1]
    questions, _, jobs, runs = lab_report.read_all(folder)
    check = Check(folder)
    for q in questions:
        if all((r, 1) in jobs for r in q["runs"]):
            check.question(lab_report.Question(q, jobs, runs))
    for problem in check.problems[:20]:
        print(problem)
    print(f"{len(check.problems)} of {check.n} marks are wrong" if check.problems else f"{check.n} marks in the pictures follow from the files")
    sys.exit(bool(check.problems))


if __name__ == "__main__":
    main()
