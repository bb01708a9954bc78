"""lab_same.py REPORT.md REPORT.md: whether two reports of one lab say the same apart from times.

Masked: columns of seconds, rates, CPU and memory; sentences on them, with their verdicts on noise; dates, what other programs did
meanwhile, and what was interrupted. All else (settings, runs done, accuracies, losses, curves, hashes, commands, environment) has to be
the same, in the same order. Prints what differs; exit code 1 if anything does.
"""

import difflib
import re
import sys

MEASURED_COLUMN = re.compile(r"\(s\)|images/s|CPU|memory|speed-up|of the ideal|cores")
MEASURED_SENTENCE = re.compile(r"^- (Q\w+: )?(.* took |No difference in time |CPU use|Peak memory|time of all)")
OF_THE_TIME = re.compile(r"^(Interrupted or failed and gone on with|The machine was busy with other programs|How busy the machine was |\| first run started )")


def masked(path):
    lines, columns, is_left_out = [], None, False
    for line in open(path, encoding="utf-8").read().splitlines():
        if line.startswith("## "):
            is_left_out = line.startswith("## How busy")
        if is_left_out or OF_THE_TIME.match(line) or not line.strip():
            columns = columns if line.strip() else None
            continue
        if line.startswith("|"):
            cells = line.split("|")[1:-1]
            if columns is None: # the head
                columns = [bool(MEASURED_COLUMN.search(c)) for c in cells]
            elif not line.startswith("|---"):
                line = "|" + "|".join(" # " if m else c for m, c in zip(columns, cells)) + "|"
        else:
            columns = None
            found = MEASURED_SENTENCE.match(line)
            if found: line = f"- {found.group(1) or ''}(measured)"
        lines.append(line)
    return lines


first, second = (masked(path) for path in sys.argv[1:3])
for said in difflib.unified_diff(first, second, *sys.argv[1:3], lineterm="", n=0): print(said)
sys.exit(first != second)
