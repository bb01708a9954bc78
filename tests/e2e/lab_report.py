"""lab_report.py LABDIR: whether every table and every sentence of a lab's report follows from the raw files of its runs.

Reads lab.txt, state.json and the run directories, computes what the report must say by rules written here a second time, and compares it
with report.md line by line: a line that is missing, and a line that does not follow, is told. Exit code 0 if there is none.
"""
import csv
import html
import json
import math
import os
import re
import sys

OF_WORKERS = {"workers", "nodes", "procs-per-node", "network", "hosts", "threads", "checkpoint-every", "log-every"}
OF_LENGTH = OF_WORKERS | {"iterations", "epochs"}
MIB = 1 / 1048576
PARTS = ("compute", "update", "communicate", "wait", "load")  # of a worker's time in training


# --- the lab ---

def pairs(text):
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def words_of(line):
    name, _, rest = line.strip().partition(" ")
    return name, rest.strip()


def read_lab(path):
    """Questions with their runs, shows, baselines and published figures; settings come from state.json."""
    questions, groups, settings, base = [], {}, {}, {}
    run = None

    def end_run():
        nonlocal run
        if run:
            made = {run["name"]: {**base, **questions[-1]["base"], **run["settings"]}}
            for key, *values in run["vary"]:
                made = {n + "-" + re.sub(r"[^A-Za-z0-9.-]", "_", v): {**s, key: v} for n, s in made.items() for v in values}
            groups[run["name"]] = list(made)
            questions[-1]["runs"] += list(made)
            questions[-1]["own"] |= set(made)
            settings.update(made)
            run = None

    source = ""
    for line in open(path, encoding="utf-8"):
        line = line.split("#")[0] if line.lstrip().startswith("#") else line
        if not line.strip():
            continue
        word, rest = words_of(line)
        if word == "question":
            end_run()
            name, _, title = rest.partition(":")
            questions.append({"id": name, "title": title.strip(), "runs": [], "own": set(), "show": [], "baseline": None, "compare": [], "published": {}, "unsure": set(),
                              "text": [], "base": {}})
        elif word == "source":
            source = rest
        elif word == "base":
            (questions[-1]["base"] if questions else base).update(pairs(rest))
        elif not questions:
            continue
        elif word == "run":
            end_run()
            run = {"name": rest.split()[0], "settings": pairs(rest), "vary": []}
        elif word == "vary":
            run["vary"].append(rest.split())
        elif word == "use":
            end_run()
            for name in rest.split():
                questions[-1]["runs"] += groups.get(name, [name])
        elif word == "show":
            questions[-1]["show"] += [w for w in rest.split() if w not in questions[-1]["show"]]
        elif word == "baseline":
            questions[-1]["baseline"] = rest
        elif word == "compare":
            questions[-1]["compare"] = rest.split()
        elif word == "published":
            what, *values = rest.split()
            for value in values:
                name, _, numbers = value.partition("=")
                low, _, high = numbers.partition("..")
                if numbers.endswith("?"):
                    questions[-1]["unsure"].add((what, name))
                    low, high = low.rstrip("?"), high.rstrip("?")
                questions[-1]["published"][what, name] = (float(low), float(high or low))
        elif word == "text":
            questions[-1]["text"].append(rest)
    end_run()
    for q in questions:
        q["baseline"] = q["baseline"] or q["runs"][0]
        q["show"] = q["show"] or ["time", "accuracy"]
    for q in questions:
        q["settings"] = settings
    return questions, source


# --- the runs ---

def load_csv(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return list(csv.DictReader(f))


class Run:
    def __init__(self, folder):
        self.result = json.load(open(folder + "/result.json"))
        self.manifest = json.load(open(folder + "/manifest.json"))
        self.metrics = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
        self.resources = [load_csv(folder + "/resources.csv")]
        for rank in range(1, len(self.result.get("ranks") or [])):
            self.resources.append(load_csv(f"{folder}/ranks/{rank}/resources.csv"))
        while self.resources and self.resources[-1] is None:
            self.resources.pop()

    def at(self, path):
        for whole in (self.result, self.manifest):
            value = whole
            for key in path.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return value
        return math.nan

    def cpu_peak(self):
        if not self.resources:
            return math.nan
        most = math.nan
        for sample in self.resources[0]:
            now, total = float(sample["elapsed_time"]), 0.0
            for rows in self.resources:
                before = [r for r in rows or [] if float(r["elapsed_time"]) <= now]
                if before and before[-1]["cpu"]:
                    total += float(before[-1]["cpu"])
            most = total if math.isnan(most) else max(most, total)
        return most

    def first_worker(self):
        """The server is rank 0 and computes nothing; None where there is no server."""
        if not isinstance(self.result.get("elastic"), dict):
            return None
        return next((r for r in self.result.get("ranks") or [] if r["images"] > 0), None)

    def cpu_mean(self):
        if not self.first_worker() or not self.resources or not self.resources[0]:
            return self.at("cpu_percent_mean")
        total = 0.0
        for sample in self.resources[0]:
            for rows in self.resources:
                before = [r for r in rows or [] if float(r["elapsed_time"]) <= float(sample["elapsed_time"])]
                if before and before[-1]["cpu"]:
                    total += float(before[-1]["cpu"])
        return total / len(self.resources[0])

    def byte_rate(self):
        senders = [r for r in self.result.get("ranks") or [] if r["bytes_sent"] > 0 and r["communicate"] + r["hidden"] > 0]
        seconds = sum(r["communicate"] + r["hidden"] for r in senders)
        return sum(r["bytes_sent"] for r in senders) / seconds if seconds > 0 else math.nan

    def measure(self, name):
        steps = self.at("steps")
        time = self.at("train_seconds") + max(0, self.at("seconds.checkpoint"))
        if name == "time":
            return time
        if name == "rate":
            return self.at("images") / time if time > 0 else math.nan
        if name == "step":
            return self.at("train_seconds") / steps if steps > 0 else math.nan
        if name == "forecast_error":
            return self.at("step_seconds.predicted") / self.measure("step") - 1
        if name == "bytes_step":
            return self.at("bytes_sent") / steps if steps > 0 else math.nan
        if name == "cpu_percent_mean":
            return self.cpu_mean()
        if name == "spent":
            return sum(self.measure(f"seconds.{part}") for part in PARTS)
        if name.startswith("share."):
            return self.measure(f"seconds.{name[len('share.'):]}") / self.measure("spent") if self.measure("spent") > 0 else math.nan
        part = name[len("seconds."):] if name.startswith("seconds.") else ""
        if part in ("compute", "update", "communicate", "wait", "load", "hidden") and self.first_worker():
            return self.first_worker()[part]
        return {"cpu_peak": self.cpu_peak, "byte_rate": self.byte_rate}[name]() if name in ("cpu_peak", "byte_rate") else self.at(name)


def unit_of(measure):
    if measure in ("test_accuracy", "target_epoch"):
        return "%" if measure == "test_accuracy" else "1"
    return "s" if measure in ("time", "spent") or re.match(r"seconds\.|total_seconds|target_.*_seconds", measure) else ""


class Spread:
    def __init__(self, values, unit=""):
        self.unit = unit
        values = sorted(v for v in values if math.isfinite(v))
        self.n = len(values)
        self.median = (values[(self.n - 1) // 2] + values[self.n // 2]) / 2 if values else math.nan
        self.low, self.high = (values[0], values[-1]) if values else (math.nan, math.nan)

    def text(self, scale=1, brackets="()"):
        median, low, high = (say(value * scale, self.unit) for value in (self.median, self.low, self.high))
        return median if self.n < 2 or low == high else f"{median} {brackets[0]}{low} to {high}{brackets[1]}"

    def brief(self, scale=1):
        return self.text(scale, "[]")


def overlap(a, b):
    return a.low <= b.high and b.low <= a.high


def say(x, unit=""):
    """Seconds below a millisecond are none; accuracies have two digits behind the point."""
    if not math.isfinite(x):
        return ""
    size = abs(x)
    if unit == "s" and size < 0.001:
        return "0"
    if unit == "%":
        return "%.2f" % x
    if unit == "1" or size >= 999.5:
        return count(x)
    return ("%.0f" if size >= 99.95 else "%.1f" if size >= 9.995 else "%.2f" if size >= 0.9995 else "%.3g") % x


def count(x):
    return f"{x:,.0f}" if math.isfinite(x) else ""


def number(x):
    return count(x) if x >= 1000 else "%g" % x


COLUMNS = {
    "time": [("time (s)", "time", 1), ("of it checkpoints (s)", "seconds.checkpoint", 1), ("images/s", "rate", 1),
             ("evaluation (s)", "seconds.evaluate", 1), ("from start to end (s)", "total_seconds", 1)],
    "accuracy": [("test accuracy (%)", "test_accuracy", 100), ("test loss", "test_loss", 1), ("training loss, mean of the last epoch", "train_loss", 1)],
    "resources": [("CPU, mean (% of a core)", "cpu_percent_mean", 1), ("CPU, most (% of a core)", "cpu_peak", 1), ("memory, most (MiB)", "peak_rss_bytes", MIB)],
    "communication": [(f"{part} (s)", f"seconds.{part}", 1) for part in ("compute", "update", "communicate", "hidden", "wait", "load")],
    "bandwidth": [("sent by all (MiB)", "bytes_sent", MIB), ("sent per step (MiB)", "bytes_step", MIB),
                  ("MB/s while communicating", "byte_rate", 1e-6)],
    "target": [("to the target, training (s)", "target_train_seconds", 1), ("since the start (s)", "target_total_seconds", 1),
               ("after epoch", "target_epoch", 1)],
    "predicted": [("step, predicted (ms)", "step_seconds.predicted", 1e3), ("step, measured (ms)", "step", 1e3),
                  ("forecast too long (+) or short (-) (%)", "forecast_error", 100)],
}


class Question:
    """What the report must say of a question."""

    def __init__(self, q, jobs, runs):
        self.q, self.jobs, self.runs = q, jobs, runs
        self.spreads = {}
        self.text = []
        self.weights = {}  # of sentences that tell a difference beyond noise: how large it is

    def tell(self, sentence, weight=0, about=()):
        """about: the runs; a question with runs of its own does not tell again of those of `use` alone."""
        if about and self.q["own"] and not self.q["own"] & set(about):
            return
        self.text.append(sentence)
        self.weights[sentence] = weight

    def spread(self, run, measure):
        key = run, measure
        if key not in self.spreads:
            self.spreads[key] = Spread([r.measure(measure) for r in self.runs[run]], unit_of(measure))
        return self.spreads[key]

    def first(self, run):
        return self.runs[run][0] if self.runs[run] else None

    def workers(self, run):
        return self.first(run).at("workers") if self.first(run) else math.nan

    def units(self, run):
        """What computes: threads of all workers, or devices, and no more of them than there are where they share a machine."""
        wanted, there = self.wanted(run), self.there_are(run)
        return there if wanted > there else wanted

    def on_cores(self, run):
        return self.first(run).result["device"] in ("cpu", "ref")

    def wanted(self, run):
        h = self.first(run)
        return h.at("workers") * (h.at("threads") if self.on_cores(run) else 1)

    def there_are(self, run):
        h = self.first(run)
        if (h.manifest.get("launch") or {}).get("hosts"):
            return math.nan
        return h.at("machine.cpus") if self.on_cores(run) else h.at("machine.devices")

    def ideal(self, run):
        return self.units(run) / self.units(self.reference(run))

    def given(self, run, key):
        return self.jobs[run, 1]["settings"].get(key) if (run, 1) in self.jobs else None

    def training(self, run, but):
        return {k: v for k, v in self.jobs[run, 1]["settings"].items() if k not in but} if (run, 1) in self.jobs else None

    def reference(self, run):
        """Fewest workers of the same training."""
        mine = self.training(run, OF_LENGTH)
        others = [r for r in self.q["runs"] if r != run and self.training(r, OF_LENGTH) == mine and self.workers(r) < self.workers(run)]
        return min(others, key=self.workers) if others else None

    def partner(self, run):
        """What it is compared with: the fewest differences of the lab's settings; the baseline before others."""
        def differences(other):
            a, b = self.q["settings"][run], self.q["settings"][other]
            return sum(a.get(key) != b.get(key) for key in {**a, **b})
        runs = self.q["runs"]
        return min([self.q["baseline"]] + runs[:runs.index(run)], key=differences)

    def published(self, what, run):
        """What may be computed with."""
        return None if (what, run) in self.q["unsure"] else self.q["published"].get((what, run))

    # --- tables ---

    def setting(self):
        asked = [r for r in self.q["runs"] if (r, 1) in self.jobs]
        first = self.jobs[asked[0], 1]["settings"]
        axes = []
        for run in self.q["runs"]:
            for key, _ in (self.jobs.get((run, 1)) or {"settings": {}})["settings"].items():
                if key not in axes and len({self.given(r, key) for r in asked}) > 1:
                    axes.append(key)
        common = [f"{k} {v}" for k, v in first.items() if all(self.given(r, k) == v for r in asked)]
        return common, axes

    def scaled(self):
        """What train was given instead of what the lab says, runs alike together."""
        alike, asked = {}, [r for r in self.q["runs"] if (r, 1) in self.jobs]
        for run in asked:
            then, changes = self.q["settings"][run], []
            for key in ("epochs", "iterations", "batch-size", "batch-per-worker", "lr", "checkpoint-every"):
                usual = {"epochs": "5", "iterations": "whole epochs", "batch-size": "128"}.get(key)
                if self.given(run, key) not in (None, then.get(key)):
                    changes.append(f"{key} {self.given(run, key)} instead of {then.get(key, usual)}")
            if changes:
                alike.setdefault(", ".join(changes), []).append(run)
        return [f"Scaled to {self.q['scale']}, {'all runs' if len(runs) == len(self.q['runs']) > 1 else ', '.join(runs)}: {changes}."
                for changes, runs in alike.items()]

    def published_text(self, what, run, scale=1):
        p = self.q["published"].get((what, run))
        if not p:
            return ""
        unsure = " (?)" if (what, run) in self.q["unsure"] else ""
        return (number(p[0] * scale) if p[0] == p[1] else f"{number(p[0] * scale)} to {number(p[1] * scale)}") + unsure

    def measures(self, show):
        is_published = any(what == show for what, _ in self.q["published"])
        used = []
        for column in COLUMNS[show]:
            spreads = [self.spread(r, column[1]) for r in self.q["runs"]]
            if any(s.n and (column[1] not in ("seconds.checkpoint", "seconds.evaluate") or s.high >= 0.001) for s in spreads):
                used.append(column)
        if not used and is_published:
            used = COLUMNS[show][:1]
        if not used:
            return [f"Nothing of this ({show}) was recorded."]
        rows = [["run"] + [c[0] for c in used] + ["published, another machine"] * is_published]
        for run in self.q["runs"]:
            rows.append([run] + [self.spread(run, c[1]).text(c[2]) for c in used]
                        + [self.published_text(show, run, COLUMNS[show][0][2])] * is_published)
        return rows

    def speedups(self):
        q, base = self.q, self.spread(self.q["baseline"], "rate")
        is_published = any(what == "speed-up" or self.published("time", run) and self.published("time", q["baseline"]) for what, run in q["published"])
        has_ideal = any(self.reference(run) for run in q["runs"])
        rows = [["run", "workers", "threads of each", "images/s", "speed-up"] + ["against", "of the ideal (%)"] * has_ideal + ["published, another machine"] * bool(is_published)]
        for run in q["runs"]:
            rate, reference = self.spread(run, "rate"), self.reference(run)
            ratio = ""
            if rate.n and base.n:
                ratio = "%.2f" % (rate.median / base.median)
                if rate.n > 1 or base.n > 1:
                    ratio += " (%.2f to %.2f)" % (rate.low / base.high, rate.high / base.low)
            ideal = ""
            if reference:
                one = self.spread(reference, "rate")
                ideal = "%.0f" % (100 * rate.median / one.median / self.ideal(run))
            there = self.published_text("speed-up", run)
            mine, its = self.published("time", run), self.published("time", q["baseline"])
            if not there and mine and its:
                there = "%.2f" % (sum(its) / sum(mine))
            threads = count(self.first(run).at("threads")) if self.first(run) else ""
            rows.append([run, count(self.workers(run)), threads, rate.text(), ratio] + [reference or "", ideal] * has_ideal + [there] * bool(is_published))
        return rows

    def curves(self):
        rows = [["run", "steps", "first loss logged", "last loss logged", "best test accuracy (%)", "at step"]]
        for run in self.q["runs"]:
            h = self.first(run)
            lines = h.metrics if h else []
            losses = [m["loss"] for m in lines if m["split"] == "train"]
            tests = [m for m in lines if m["split"] == "test"]
            best = max(tests, key=lambda m: m["accuracy"]) if tests else None
            rows.append([run, count(h.at("steps")) if h else "", "%.4f" % losses[0] if losses else "", "%.4f" % losses[-1] if losses else "",
                         "%.2f" % (100 * best["accuracy"]) if best else "", count(best["step"]) if best else ""])
        has_tests = any(m["split"] == "test" for run in self.q["runs"] if self.first(run) for m in self.first(run).metrics)
        return rows if has_tests else [row[:4] for row in rows]

    def hashes(self):
        rows = [["run", "repeats", "hash of the weights"]]
        for run in self.q["runs"]:
            rows.append([run, str(len(self.runs[run])), ", ".join(dict.fromkeys(r.result["weights_hash"] for r in self.runs[run]))])
        return rows

    def nodes(self):
        rows = [["run", "node", "workers", "images", "from start to end (s)", "communicate (s)", "wait (s)", "sent (MiB)", "CPU, mean (% of a core)",
                 "memory, most (MiB)"]]
        for run in self.q["runs"]:
            h, nodes = self.first(run), {}
            is_served = h is not None and isinstance(h.result.get("elastic"), dict)
            for i, rank in enumerate((h.result.get("ranks") or []) if h else []):
                samples = h.resources[i] if i < len(h.resources) and h.resources[i] else []
                node = nodes.setdefault((is_served and i == 0, rank["host"]), {"n": 0, "images": 0, "t": 0, "c": 0, "w": 0, "sent": 0, "cpu": 0, "mem": 0})
                node["n"] += 1
                node["images"] += rank["images"]
                node["t"], node["c"], node["w"] = max(node["t"], rank["total_seconds"]), max(node["c"], rank["communicate"]), max(node["w"], rank["wait"])
                node["sent"] += rank["bytes_sent"]
                node["cpu"] += sum(float(s["cpu"] or 0) for s in samples) / len(samples) if samples else math.nan
                node["mem"] += max(float(s["mem_real"]) for s in samples) if samples else math.nan
            for (is_server, host), n in nodes.items():
                is_here = host == h.manifest["machine"]["host"] and not (h.manifest.get("launch") or {}).get("is_shaped")
                rows.append([run, ("this machine" if is_here else host) + ", server" * is_server, "" if is_server else str(n["n"]), "" if is_server else count(n["images"]),
                             say(n["t"], "s"), say(n["c"], "s"), say(n["w"], "s"), say(n["sent"] * MIB), say(n["cpu"]), say(n["mem"])])
        return rows

    # --- sentences ---

    def there(self, run, base):
        mine, its = self.published("time", run), self.published("time", base)
        return "; published, on another machine: %.2f times" % (sum(mine) / sum(its)) if mine and its else ""

    def density(self, run):
        """How many times as often checkpoints are written as the lab says."""
        lab, ours = self.q["settings"][run].get("checkpoint-every", ""), self.given(run, "checkpoint-every") or ""
        return max(1, int(lab) / int(ours)) if lab.isdigit() and ours.isdigit() else 1

    def say_times(self):
        if not self.say_comparison("time"):
            self.say_each_time()
        self.say_checkpoints()

    def say_each_time(self):
        for run in self.q["runs"]:
            base = self.partner(run)
            a, b = self.spread(run, "time"), self.spread(base, "time")
            if run == self.q["baseline"] or not a.n or not b.n:
                continue
            dense = self.density(run)
            also = f"; the scale made checkpoints {dense:.3g} times as frequent" if dense > 1 else self.there(run, base)
            numbers = f"({a.brief()} s against {b.brief()} s" + ("" if a.n > 1 and b.n > 1 else "; measured once, so the noise is not known") + also + ")."
            if overlap(a, b):
                self.tell(f"No difference in time beyond noise between {run} and {base} {numbers}", 0, (run, base))
            else:
                self.tell(f"{run} took {say(a.median / b.median)} times the time of {base} {numbers}", abs(math.log(a.median / b.median)), (run, base))
        base = self.q["baseline"]
        b = self.spread(base, "time")
        if sum(self.spread(r, "time").n > 0 for r in self.q["runs"]) == 1 and b.n:
            self.tell(f"{base} took {b.brief()} s for {count(self.first(base).at('images'))} images.")

    def say_checkpoints(self):
        for run in self.q["runs"]:
            held, time = self.spread(run, "seconds.checkpoint"), self.spread(run, "time")
            if (self.given(run, "checkpoint-every") or "none") != "none" and held.n and time.n:
                every, first = self.given(run, "checkpoint-every"), self.first(run)
                n = first.at("epochs") if every == "epoch" else first.at("steps") / int(every) if first.at("steps") % int(every) == 0 else 0
                self.tell(f"Checkpoints held {run} up for {held.brief()} s, {'%.2g' % (100 * held.median / time.median)} % of its time"
                          + (f"; each of {n:.0f} for {say(1e3 * held.median / n)} ms" if n else "") + ".", 0, (run,))
                if self.density(run) > 1:
                    self.tell(f"The scale left {run} as many checkpoints as the lab has, in fewer steps: what they cost here is not what they cost there.", 0, (run,))

    def say_speedups(self):
        is_weak = False
        for run in self.q["runs"]:
            one = self.reference(run)
            a = self.spread(run, "rate")
            if not one or not a.n:
                continue
            b, h = self.spread(one, "rate"), self.first(run)
            ratio, ideal = a.median / b.median, self.ideal(run)
            is_weak |= (not self.q["own"] or bool(self.q["own"] & {run, one})) and h.at("batch_size") != self.first(one).at("batch_size")
            if overlap(a, b):
                self.tell(f"{run}: no speed-up over {one} beyond noise.", 0, (run, one))
            else:
                self.tell(f"{run}: a speed-up of {ratio:.2f} over {one}, {100 * ratio / ideal:.0f} % of the ideal {'%.3g' % ideal}.", abs(math.log(ratio)), (run, one))
            there, unit = self.there_are(run), "core" if self.on_cores(run) else "device"
            if self.wanted(run) > there:
                self.tell(f"The {h.at('workers'):.0f} workers of {run} share {there:.0f} {unit}{'' if there == 1 else 's'}.", 0, (run, one))
            if ideal == 1:
                why = "what is above the ideal does not come from more of them" if ratio > 1 and not overlap(a, b) else "there is nothing that more workers could add"
                self.tell(f"{run} and {one} computed with as many {unit}s ({self.units(one):.0f}): {why}.", 0, (run, one))
            if ratio >= 0.9 * ideal:
                continue
            communicate, wait = (self.spread(run, f"share.{k}").median for k in ("communicate", "wait"))
            alone = self.spread(one, "share.wait").median
            if communicate >= 0.05:
                self.tell(f"{100 * communicate:.0f} % of the time of {run} was communication that no computing hid.", 0, (run, one))
            if wait - alone >= 0.05:
                self.tell(f"{100 * wait:.0f} % of the time of {run} was waiting, against {100 * alone:.0f} % of {one}: for {'the server and ' if isinstance(h.result.get('elastic'), dict) else ''}the other workers.", 0, (run, one))
        if is_weak:
            self.tell("This is weak scaling: the global batch grows with the workers, so these are different trainings, "
                             "compared by their images per second.")

    def say_accuracies(self):
        if self.say_comparison("test_accuracy"):
            return
        for run in self.q["runs"]:
            base = self.partner(run)
            a, b = self.spread(run, "test_accuracy"), self.spread(base, "test_accuracy")
            if run == self.q["baseline"] or not a.n or not b.n:
                continue
            n_test = self.first(run).at("test_data.images")
            blur = 1.96 * math.sqrt((a.median * (1 - a.median) + b.median * (1 - b.median)) / n_test) if n_test > 0 else 0
            if a.low == b.low and a.high == b.high:
                self.tell(f"{run} has exactly the accuracy of {base} ({100 * a.median:.2f} %).", 0, (run, base))
            elif overlap(a, b) or abs(a.median - b.median) <= blur:
                self.tell(f"No difference in accuracy beyond noise between {run} and {base} ({100 * a.median:.2f} % against {100 * b.median:.2f} %).", 0, (run, base))
            else:
                self.tell(f"{run} is right on {100 * a.median:.2f} % of the test data, {100 * abs(a.median - b.median):.2f} points "
                          f"{'more' if a.median > b.median else 'less'} than {base}.", abs(a.median - b.median), (run, base))
        if len(self.q["runs"]) == 1:
            self.say_ends("test_accuracy", 100, "Accuracy on test data", " %")

    def say_ends(self, measure, scale, what, unit):
        known = [r for r in self.q["runs"] if self.spread(r, measure).n]
        if not known:
            return
        least, most = min(known, key=lambda r: self.spread(r, measure).median), max(known, key=lambda r: self.spread(r, measure).median)
        low, high = self.spread(least, measure), self.spread(most, measure)
        if len(known) > 1 and low.low == high.high:
            self.tell(f"{what} is the same in all runs{' that are done' * (len(known) < len(self.q['runs']))}: {high.brief(scale)}{unit}.")
        elif len(known) == 1:
            self.tell(f"{what} of {most}: {high.brief(scale)}{unit}.")
        elif overlap(low, high):
            self.tell(f"{what}: no difference beyond noise ({high.brief(scale)}{unit} at most).")
        elif low.brief(scale) == high.brief(scale):
            self.tell(f"{what}: no difference in the digits shown ({high.brief(scale)}{unit}).")
        else:
            self.tell(f"{what} was highest in {most} ({high.brief(scale)}{unit}) and lowest in {least} ({low.brief(scale)}{unit}).",
                      math.log(high.median / low.median) if low.median > 0 else 1)

    def say_hashes(self):
        hashes = [r.result["weights_hash"] for run in self.q["runs"] for r in self.runs[run]]
        if len(hashes) < 2:
            return
        n_runs = sum(len(self.runs[run]) > 0 for run in self.q["runs"])
        if len(set(hashes)) == 1:
            self.tell(f"The same weights, proved by hash: all {len(hashes)} trainings of {n_runs} runs ended with {hashes[0]}.")
            return
        self.tell(f"The weights are not all the same: {len(hashes)} trainings ended with {len(set(hashes))} different hashes.")
        told = []
        for run in self.q["runs"]:
            mine = self.training(run, OF_WORKERS)
            if mine is None or mine in told:
                continue
            told.append(mine)
            same = [r for r in self.q["runs"] if self.training(r, OF_WORKERS) == mine and self.runs[r]]
            found = list(dict.fromkeys(h.result["weights_hash"] for r in same for h in self.runs[r]))
            if len(same) > 1:
                self.tell(f"{', '.join(same)} are one training, " + (f"and have the same weights, proved by hash: {found[0]}." if len(found) == 1
                                                                            else f"but ended with {len(found)} different hashes."))

    def say_targets(self):
        reached = []
        for run in self.q["runs"]:
            s = self.spread(run, "target_total_seconds")
            if s.n:
                reached.append((s.median, run))
            elif self.runs[run] and self.given(run, "target"):
                self.tell(f"{run} did not reach {self.given(run, 'target')}.")
        if reached:
            _, best = min(reached, key=lambda x: x[0])
            first = self.spread(best, "target_total_seconds")
            equals = [run for _, run in reached if run != best and overlap(first, self.spread(run, "target_total_seconds"))]
            self.tell(f"First at the target: {best}, {first.brief()} s after its start"
                      + f"; no difference beyond noise from {', '.join(equals)}" * bool(equals) + ".", 1)

    def say_communication(self):
        for run in self.q["runs"]:
            compute = self.spread(run, "share.compute")
            if "speed-up" not in self.q["show"] and self.workers(run) > 1 and compute.n:
                is_served = isinstance(self.first(run).result.get("elastic"), dict)
                other = self.spread(run, "share.wait" if is_served else "share.communicate")
                doing = "waited for the server and for others" if is_served else "communicated with nothing to compute"
                self.tell(f"{run}: {100 * compute.median:.0f} % of the time computed, {100 * other.median:.0f} % {doing}.", 0, (run,))

    def say_predictions(self):
        self.say_forecast()
        told = [r for r in self.q["runs"] if self.spread(r, "forecast_error").n and (not self.q["own"] or r in self.q["own"])]
        if len(told) > 2:
            error = {r: self.spread(r, "forecast_error").median for r in told}
            least, most = min(told, key=error.get), max(told, key=error.get)
            self.tell(f"Against what was measured, the forecast of a step was from {100 * error[least]:+.0f} % ({least}) to {100 * error[most]:+.0f} % ({most}).",
                      max(map(abs, error.values())))
            return
        for run in told:
            said, step, error = (self.spread(run, m) for m in ("step_seconds.predicted", "step", "forecast_error"))
            self.tell(f"{run}: a step was predicted to take {say(1e3 * said.median)} ms and took {say(1e3 * step.median)} ms "
                      f"({100 * error.median:+.0f} %).", abs(error.median))

    # --- what the question compares ---

    def setting_text(self, key, value, is_short=False):
        if value is None:
            return f"{key} not set"
        return value if is_short and value[0].isalpha() and value not in ("on", "off") else f"{key} {value}"

    def compared_name(self, run):
        """What it is called among those it is compared with."""
        first, *more = self.q["compare"]
        s = self.q["settings"][run]
        return " ".join([self.setting_text(first, s.get(first), True)] + [self.setting_text(k, s[k]) for k in more if k in s])

    def axes(self):
        keys = dict.fromkeys(k for r in self.q["runs"] for k in self.q["settings"][r])
        return [k for k in keys if len({self.q["settings"][r].get(k) for r in self.q["runs"]}) > 1]

    def case_name(self, run):
        return " and ".join(self.setting_text(k, self.q["settings"][run].get(k)) for k in self.axes() if k not in self.q["compare"])

    def cases(self, measure):
        """Runs that differ in what is compared alone, the best first, with those that are not worse beyond noise."""
        by_name, made = {}, []
        for run in self.q["runs"] if self.q["compare"] else []:
            by_name.setdefault(self.case_name(run), []).append(run)
        for name, runs in by_name.items():
            known = sorted((r for r in runs if self.spread(r, measure).n), key=lambda r: self.spread(r, measure).median, reverse=measure == "test_accuracy")
            if len(known) < 2 or self.q["own"] and not self.q["own"] & set(known):
                continue
            best = self.spread(known[0], measure)
            alike = [r for r in known if r == known[0] or overlap(best, self.spread(r, measure)) or measure == "test_accuracy" and self.is_chance(known[0], r)]
            made.append((name, runs[0], known, alike))
        return made

    def is_chance(self, a, b):
        n_test = self.first(a).at("test_data.images")
        p, r = self.spread(a, "test_accuracy").median, self.spread(b, "test_accuracy").median
        return n_test > 0 and abs(p - r) <= 1.96 * math.sqrt((p * (1 - p) + r * (1 - r)) / n_test)

    def distance(self, run, best, measure):
        a, b = self.spread(run, measure).median, self.spread(best, measure).median
        return f"{100 * (b - a):.2f} points less" if measure == "test_accuracy" else f"{say(a / b)} times"

    def say_comparison(self, measure):
        """The answer, each case with its numbers, what the cases do to each of the compared. False: there is none."""
        cases, is_accuracy = self.cases(measure), measure == "test_accuracy"
        if not cases:
            return False
        by_winner = {}
        for name, _, known, alike in cases:
            names = [self.compared_name(r) for r in alike]
            who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}, no difference beyond noise,"
            others = [f"{self.compared_name(r)} {self.distance(r, known[0], measure)}" for r in known if r not in alike]
            where = (f" with {name}" if name else "") + (f" ({', '.join(others)}{'' if is_accuracy else ' the time'})" if others else "")
            by_winner.setdefault(who, []).append(where)
        is_once = any(self.spread(r, measure).n == 1 for _, _, known, _ in cases for r in known)
        self.tell(("Most accurate: " if is_accuracy else "Fastest: ") + "; ".join(who + ",".join(where) for who, where in by_winner.items())
                  + "; measured once, so the noise is not known" * is_once + ".", math.inf)
        for name, _, known, alike in cases:
            parts = []
            for run in known:
                far = "" if run == known[0] else ", no difference beyond noise" if run in alike else f", {self.distance(run, known[0], measure)}"
                parts.append(f"{self.compared_name(run)} {self.spread(run, measure).brief(100 if is_accuracy else 1)} {'%' if is_accuracy else 's'}{far}")
            self.tell((f"With {name}: " if name else "") + "; ".join(parts) + ".")
        if is_accuracy:
            return True
        for name in dict.fromkeys(self.compared_name(r) for _, _, known, _ in cases for r in known):
            mine = [(case, r) for case, _, known, _ in cases for r in known if self.compared_name(r) == name]
            base = self.spread(mine[0][1], measure)
            effects = [("no difference beyond noise" if overlap(base, self.spread(r, measure)) else f"{say(self.spread(r, measure).median / base.median)} times")
                       + f" with {case}" for case, r in mine[1:]]
            if effects:
                self.tell(f"{name}, against its time with {mine[0][0]}: {', '.join(effects)}.")
        self.say_compared_weights(cases)
        return True

    def say_compared_weights(self, cases):
        same, others = 0, []
        for _, leader, known, _ in cases:
            wanted = self.first(leader).result["weights_hash"] if self.first(leader) else None
            for run in known:
                if all(h.result["weights_hash"] == wanted for h in self.runs[run]):
                    same += run != leader
                elif self.compared_name(run) not in others:
                    others.append(self.compared_name(run))
        if same and not others:
            self.tell("What is compared is one training: the weights are the same, proved by hash.")
        for name in others if same else []:
            self.tell(f"{name} ended with other weights than {self.compared_name(cases[0][1])}: another training, of which this is the time only.")

    def say_forecast(self):
        right, wrong, n = 0, [], 0
        for name, _, known, alike in self.cases("step"):
            said = {r: self.spread(r, "step_seconds.predicted") for r in known}
            if not all(s.n for s in said.values()):
                continue
            best, n = min(known, key=lambda r: said[r].median), n + 1
            right += best in alike
            if best not in alike:
                wrong.append((f"with {name} " if name else "") + f"forecast {self.compared_name(best)}, measured {self.compared_name(known[0])}")
        if n:
            self.tell(f"The forecast before the first step named the fastest in {right} of {n} case{'' if n == 1 else 's'}"
                      + (": " if wrong else "") + "; ".join(wrong) + ".")

    def say_resources(self):
        self.say_ends("cpu_percent_mean", 1, "CPU use", " % of a core")
        self.say_ends("peak_rss_bytes", MIB, "Peak memory", " MiB")

    def sentences(self):
        """All of them in the order of `show`, and the one for the summary: of the first word that has any the largest difference."""
        rules = {"time": self.say_times, "speed-up": self.say_speedups, "accuracy": self.say_accuracies, "resources": self.say_resources,
                 "curves": lambda: self.say_ends("train_loss", 1, "The mean training loss of the last epoch", ""),
                 "communication": self.say_communication, "hash": self.say_hashes, "target": self.say_targets, "predicted": self.say_predictions,
                 "bandwidth": lambda: self.q["compare"] or self.say_ends("byte_rate", 1e-6, "The rate while communicating", " MB/s"), "nodes": lambda: None}
        first = None
        for show in self.q["show"]:
            before = len(self.text)
            rules[show]()
            said = self.text[before:]
            if said and first is None:
                first = max(said, key=lambda line: self.weights[line])
        return self.text, first

    def apart(self):
        """What sets ours apart from what is published."""
        part = ""
        for _, run in self.q["published"]:
            h, published = self.first(run), PUBLISHED.get(self.given(run, "data"))
            if h and published and is_part(h, published):
                part = f" The published set has {count(published[0])} images to train on, ours {count(n_images(h)[0])}."
        scaled = f" Ours is scaled to {self.q['scale']}, theirs is not." if self.q["scale"] != "1" else ""
        return part + scaled + " (?): it is not certain that the figure is of this run." * bool(self.q["unsure"])

    def networks(self):
        """Where the nodes of runs were that asked for a network."""
        told = []
        for run in self.q["runs"]:
            launch = (self.first(run).manifest.get("launch") or {}) if self.first(run) else {}
            if not launch.get("network") or not launch.get("nodes", 0) > 1:
                continue
            cpus = self.first(run).at("machine.cpus")
            told.append(f"The {launch['nodes']} nodes of the network {launch['network']} are network namespaces on one computer, whose {cpus:.0f} core{'' if cpus == 1 else 's'} "
                        "they share; the link of each has that shape." if launch.get("is_shaped") else
                        "The network was not shaped (that needs root): nodes were plain processes that talk through loopback.")
        return list(dict.fromkeys(told))

    def shown(self, show):
        """What is said below a picture of what it shows."""
        done = [r for r in self.q["runs"] if self.first(r)]
        if show == "resources":
            known = [r for r in done if self.first(r).resources and len(self.first(r).resources[0] or []) > 1]
            return ["The picture is of the first repeat of each run." + f" The picture has the first 12 of {len(known)} runs." * (len(known) > 12)] if known else []
        if show != "curves" or not any(len(self.runs[r]) > 1 for r in done) and len(done) <= 24:
            return []
        return ["Thin curves are further repeats." * any(len(self.runs[r]) > 1 for r in done) + f" The picture has the first 24 of {len(done)} runs." * (len(done) > 24)]

    def expected(self, source):
        """Lines of the section: rows as lists, texts as they are."""
        q = self.q
        lines = [f"## {q['id']}: {q['title']}"]
        common, axes = self.setting()
        if common:
            lines.append(f"Setting of all runs: {', '.join(common)}.")
        lines.append(["run"] + axes + ["repeats done"])
        for run in q["runs"]:
            n_asked = sum(name == run for name, _ in self.jobs)
            lines.append([run] + [self.given(run, a) or "" for a in axes] + [f"{len(self.runs[run])} of {n_asked}"])
        lines += self.scaled()
        words, self.summary = self.sentences()
        lines += ["- " + line for line in words]
        missing = [f"{r} ({len(self.runs[r])} of {sum(n == r for n, _ in self.jobs)})" for r in q["runs"]
                   if len(self.runs[r]) < sum(n == r for n, _ in self.jobs) or not any(n == r for n, _ in self.jobs)]
        if missing:
            lines.append(f"Not all is there: trainings done of {', '.join(missing)}.")
        lines += self.networks()
        if any(self.runs[r] for r in q["runs"]):
            for show in q["show"]:
                lines += self.shown(show)
                made = {"speed-up": self.speedups, "curves": self.curves, "hash": self.hashes, "nodes": self.nodes}.get(show, lambda: self.measures(show))
                lines += made()
        if q["published"] and source:
            lines.append(f"Published: {source}" + self.apart())
        lines += [f"    {self.jobs[r, 1]['command']}" for r in q["runs"] if (r, 1) in self.jobs]
        return lines


# Images of data sets as they are published, to train and to test on.
PUBLISHED = {"mnist": (60000, 10000), "fashion-mnist": (60000, 10000), "cifar10": (50000, 10000), "svhn": (73257, 26032)}


def n_images(h):
    """Of those that were there: to train and validate on, to test on."""
    of = [(h.manifest.get(part) or {}).get("images", 0) for part in ("train_data", "validation_data", "test_data")]
    return of[0] + of[1], of[2]


def is_part(h, published):
    train, test = n_images(h)
    return train < published[0] or 0 < test < published[1]


def facts(jobs, runs, names):
    """What the top says of the images and of other programs."""
    lines, has_part, busy = [], False, []
    for run in names:
        if not runs[run]:
            continue
        h, data = runs[run][0], jobs[run, 1]["settings"]["data"]
        (train, test), validation, published = n_images(h), (h.manifest.get("validation_data") or {}).get("images", 0), PUBLISHED.get(data)
        text = f"Data: {data}, {count(train - validation)} images to train on"
        text += f", {count(validation)} more to validate on" * (validation > 0) + f" and {count(test)} to test on" * (test > 0)
        if published:
            is_all = train == published[0] and test in (0, published[1])
            text += ", all that are published" if is_all else f"; {count(published[0])}" + f" and {count(published[1])}" * (test > 0) + " are published"
            has_part |= is_part(h, published)
        if text + "." not in lines:
            lines.append(text + ".")
    if has_part:
        lines.append("Where the texts of this lab, or published figures, speak of a data set they mean all of its images; ours are of those that were there.")
    for run in names:
        cores = others(jobs, run)
        if cores.n and cores.high > 0.3:
            busy.append(f"{run} ({cores.high:.2f})")
    if busy:
        lines.append("The machine was busy with other programs, so times are disturbed: in a training of these runs others used more than 0.3 cores, "
                     f"as a mean of all its time (the most of its repeats): {', '.join(busy)}.")
    return lines


def others(jobs, run):
    """Cores that others used, over the trainings of a run that are done."""
    done = [j for (name, _), j in jobs.items() if name == run and j["state"] == "done" and j.get("others_cpu_seconds") is not None]
    return Spread([j["others_cpu_seconds"] / j["seconds"] for j in done], "%")


def check_parts(runs):
    """Problems of how a rank's time is told apart: what it did adds up to its time, and no worker waits while its server evaluates."""
    problems = []
    for name, repeats in runs.items():
        for h in repeats:
            for rank in h.result.get("ranks") or []:
                told = sum(rank[part] for part in PARTS + ("setup", "checkpoint", "evaluate", "other"))
                if abs(told - rank["total_seconds"]) > 0.01 + 0.01 * rank["total_seconds"]:
                    problems.append(f"{name}, rank {rank['rank']}: its parts are {told:.3f} s of {rank['total_seconds']:.3f} s")
            server = (h.result.get("ranks") or [None])[0]
            for worker in (h.result.get("elastic") or {}).get("workers") or []:
                if worker["joined_step"] == 0 and worker["left_step"] is None and not worker["evaluate_seconds"] > 0.8 * server["evaluate"] - 0.01:
                    problems.append(f"{name}: the server evaluated for {server['evaluate']:.3f} s, a worker stood still for {worker['evaluate_seconds']:.3f} s of it")
    return problems


def check_environment(folder, state, runs, found):
    """Problems of what is said of the command and the program."""
    pairs = {line[0]: line[1] for line in found.get("## Environment", []) if isinstance(line, list) and len(line) == 2}
    commits = list(dict.fromkeys(c for name in state["order"] for h in runs[name] for c in [h.manifest.get("lockstep_commit")] if c))
    command = f"lockstep lab run {state['lab']}" + ".lab" * os.path.exists(f"{folder}/../{state['lab']}.lab")
    command += "".join(f" --{key} {state[key]}" for key in ("scale", "only", "device", "workers") if state[key] not in ("", "1", None) or (key == "workers" and state[key]))
    command += f" --repeat {state['repeat']}" * bool(state["repeat"]) + " --stand-in" * bool(state["stand_in"])
    command += f" --data-dir {state['data_dir']}" if state["data_dir"] else ""
    wanted = {"command": command, "its commit": ", ".join(commits) or None}
    return [f"environment, {key}: expected {value}, found {pairs.get(key)}" for key, value in wanted.items() if pairs.get(key) != value]


def check_facts(jobs, runs, names, found):
    """Problems of what is told of images and of other programs."""
    top = next(lines for head, lines in found.items() if head.startswith("# "))
    told = [line for line in top if isinstance(line, str) and line.startswith(("Data: ", "Where the texts", "The machine was busy"))]
    table = [[run, others(jobs, run).text()] for run in names if others(jobs, run).n]
    problems, wanted, got = [], facts(jobs, runs, names), found.get("## How busy the machine was with others", [])
    lines = [line for section in found.values() for line in section]
    if ("How busy the machine was with other programs was not recorded." in lines) != (not table and any(runs.values())):
        problems.append("whether other programs were recorded is told wrongly")
    if told != wanted:
        problems.append(f"the top: expected {wanted}\n  found {told}")
    if [line for line in got if isinstance(line, list)][1:] != table:
        problems.append(f"other programs: expected {table}\n  found {got}")
    return problems


NOTES = ("No curves: nothing was logged twice. ", "Speed-up is images per second, checkpoints included, over those of ", "Seconds of the first worker. Compute: ", "This table is of the first repeat", "Of the first repeat of each run. Times",
         "MB/s: what a worker sent over")


def plain(text):
    return html.unescape(re.sub(r"\\(.)", r"\1", text))


def sections(path):
    """Of report.md: each question's lines, rows as lists; pictures and rulers are left out."""
    found, current = {}, None
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("# ") or line.startswith("## "):
            current = found.setdefault(plain(line), [])
            current.append(plain(line))
        elif current is not None and line.strip() and not line.startswith("![") and not re.fullmatch(r"\|(---\|)+", line):
            if line.startswith("|"):
                current.append([plain(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
            else:
                current.append(line if line.startswith("    ") else plain(line))
    return found


def merged_tables(path):
    """Heads of tables without a ruler below them: they ran into the table above."""
    lines = open(path, encoding="utf-8").read().split("\n")
    return [a for a, b in zip(lines, lines[1:]) if a.startswith("| run |") and not b.startswith("|---|")]


def show_line(line):
    return " | ".join(line) if isinstance(line, list) else line


def read_all(folder):
    """Questions, source, jobs by (run, repeat), and the runs that are done by name."""
    questions, source = read_lab(folder + "/lab.txt")
    state = json.load(open(folder + "/state.json"))
    jobs = {(j["run"], j["repeat"]): j for j in state["jobs"]}
    for q in questions:
        q["scale"] = state["scale"]
    runs = {}
    for name in {r for q in questions for r in q["runs"]}:
        runs[name] = [Run(f"{folder}/{j['dir']}") for (run, _), j in sorted(jobs.items(), key=lambda x: x[0][1]) if run == name and j["state"] == "done"]
    return questions, source, jobs, runs


def main():
    folder = sys.argv[1]
    questions, source, jobs, runs = read_all(folder)
    found = sections(folder + "/report.md")
    problems, n_lines = [f"a table without a head of its own: {line}" for line in merged_tables(folder + "/report.md")], 0
    top = next(lines for head, lines in found.items() if head.startswith("# "))
    problems += check_facts(jobs, runs, list(questions[0]["settings"]), found)
    problems += check_parts(runs)
    state = {**json.load(open(folder + "/state.json")), "order": list(questions[0]["settings"])}
    problems += check_environment(folder, state, runs, found)
    for q in questions:
        if not all((r, 1) in jobs for r in q["runs"]):
            if f"## {q['id']}: {q['title']}" in found:
                problems.append(f"{q['id']}: told though it was not asked")
            continue
        question = Question(q, jobs, runs)
        wanted = question.expected(source)
        got = found.get(wanted[0], [])
        got = [line for line in got if isinstance(line, list) or not (line.startswith(NOTES) or line in " ".join(q["text"]))]
        nothing = "its tables show what was measured." if any(runs[r] for r in q["runs"]) else "nothing is done yet."
        first = f"- {q['id']}: {question.summary or nothing}"
        if first not in top:
            problems.append(f"{q['id']}: the summary lacks: {first}")
        for a, b in zip(wanted, got):
            if a != b:
                problems.append(f"{q['id']}: expected {show_line(a)}\n{' ' * len(q['id'])}       found {show_line(b)}")
        for line in wanted[len(got):]:
            problems.append(f"{q['id']}: missing: {show_line(line)}")
        for line in got[len(wanted):]:
            problems.append(f"{q['id']}: does not follow: {show_line(line)}")
        n_lines += len(wanted)
    for problem in problems[:20]:
        print(problem)
    if problems:
        print(f"{len(problems)} problems")
    else:
        print(f"{n_lines} lines of {len(questions)} questions follow from the files of {sum(map(len, runs.values()))} runs")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
