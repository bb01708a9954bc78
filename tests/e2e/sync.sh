#!/usr/bin/env bash
# sync.sh LOCKSTEP: --compress and --sync local:H in one process: they train what they should, down to gradients of nearly nothing.
# test: sanitize
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all "python3 is not installed"

# --- a perfectly fitted network has gradients below every float: they must not end the run ---
for bits in 8 16; do
    train softmax fake:3x32x32:10:16 -b 8 --shards 2 --epochs 100 --lr 1 --schedule constant --compress "$bits" --no-eval --run "fit$bits"
    equal "--compress $bits on a perfectly fitted network" "$code $(field train_loss)" "0 0.0"
done

# --- AdamW's second moments survive an average, however small: otherwise weights jump by m / eps ---
largest() { # CHECKPOINT: the largest weight
    python3 - "$1" <<'END'
import array, json, struct, sys

data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
most = 0
for name, t in json.loads(data[8 : 8 + n]).items():
    if name == "__metadata__" or name.startswith("optimizer") or t["dtype"] != "F32":
        continue
    begin, end = t["data_offsets"]
    most = max(most, max(map(abs, array.array("f", data[8 + n + begin : 8 + n + end]))))
print(most)
END
}
train lenet5 digits -b 64 -i 400 --optimizer adamw --lr 0.003 --schedule constant --sync local:4 --no-eval --run adamw
most=$(largest "$(newest_of adamw)")
if python3 -c "import sys; sys.exit(not 0.1 < float(sys.argv[1]) < 1)" "$most"; then ok "AdamW with local:4: the largest weight is $most"
else bad "AdamW with local:4: the largest weight is $most, expected less than 1"; fi

finish
