#!/usr/bin/env bash
# models.sh LOCKSTEP: `models NAME` is a table whose rows add up, at 80 columns; JSON says the same; sizes that a model takes are tried.
# test: sanitize
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"

fail() { bad "$*"; }

for model in lenet5 mobilenetv2 densenet121 googlenet; do
    "$lockstep" models "$model" >table || fail "models $model"
    awk 'length($0) > 80 { exit 1 }' table || fail "models $model is wider than 80 columns"
    "$lockstep" models "$model" --json >json || fail "models $model --json"
    python3 - "$model" <<'P' || fail "$model: rows do not add up"
import json, re, sys
m, text = json.load(open("json"))["models"][0], open("table").read()
rows = m["table"]
for key, total in ("parameters", m["parameters"]), ("activation_bytes", m["activation_bytes_per_image"]), ("flop", m["gflop_per_image"] * 1e9):
    got = sum(r[key] for r in rows)
    assert abs(got - total) <= 1e-9 * total, (key, got, total)
assert len(rows) == m["layers"] == int(re.search(r"^(\d+) layers, (\d+) parameters", text, re.M).group(1))
assert int(re.search(r"^\d+ layers, (\d+) parameters", text, re.M).group(1)) == m["parameters"]
assert rows[-1]["output"] == [1, m["classes"]]
assert len(re.findall(r"^\S+ +\S.* +(?:\d+|-) +\S+", text, re.M)) >= len(rows)
P
    ok "the layers of $model"
done

"$lockstep" models >table || fail "models"
awk 'length($0) > 80 { exit 1 }' table || fail "the list is wider than 80 columns"
grep -q '^svhn-cnn .*3x32x32  ' table || fail "svhn-cnn adapts to nothing"
grep -q '^mobilenetv2 .*3x224x224 (adapts)' table || fail "mobilenetv2 adapts"

"$lockstep" models mobilenetv2 --input 3x96x96 --classes 7 -b 4 --json >json || fail "other sizes"
python3 - <<'P' || fail "-b 4 is not four times as much"
import json
m = json.load(open("json"))["models"][0]
assert m["input"] == [3, 96, 96] and m["batch_size"] == 4 and m["table"][-1]["output"] == [4, 7]
assert sum(r["activation_bytes"] for r in m["table"]) == 4 * m["activation_bytes_per_image"]
assert [3, 32, 32] in m["takes"] and [1, 28, 28] in m["takes"]
P
"$lockstep" models svhn-cnn --json >json || fail "svhn-cnn"
python3 -c 'import json; assert json.load(open("json"))["models"][0]["takes"] == [[3, 32, 32]]' || fail "svhn-cnn takes one size"
"$lockstep" models -b 4 >/dev/null 2>err && fail "models -b 4 without a model"
grep -q "name the model" err || fail "$(cat err)"
ok "sizes, batches, refusals"
finish
