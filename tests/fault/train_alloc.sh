#!/usr/bin/env bash
# train_alloc.sh LOCKSTEP [FAULTS [long]]: the n-th allocation of a training fails, for n = 1, 2, ...: exit code 1 and one line each
# time, never a crash, a hang or a damaged run. LOCKSTEP_FAIL_ALLOC says which one fails.
#
# The short form takes each of the first 40 and then every 13th, `long` all.
# test: sanitize
# shellcheck disable=SC2154,SC2206 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/../e2e/lib.sh"
if [ "${3:-short}" = long ]; then stride=1; else stride=13; fi
cat >net.net <<'END'
model net
input any
conv conv1 4 3 pad=1 bias=no
bn bn1
relu
dropout 0.1
keep x
conv conv2 4 1
add x
maxpool 2
flatten
linear fc classes
END
tiny=(./net.net fake:1x8x8:4:24 -b 8 --shards 2 -t 2 --epochs 2)

hash_in() { sed -n 's/.*"weights_hash": "\([0-9a-f]*\)".*/\1/p' "$1"; }

# attempt WHAT N ARGS...: fails when the command did not
attempt() {
    local what=$1 n=$2
    shift 2
    LOCKSTEP_FAIL_ALLOC=$n timeout $patience "$lockstep" "$@" --json -q >out 2>err </dev/null
    code=$?
    if [ $code -eq 0 ]; then
        # A line of metrics, or of the plan's text: what can be spared is, and the result is the same.
        if [ "$(hash_in out)" != "$hash" ]; then bad "$what: allocation $n: weights $(hash_in out), expected $hash"; fi
        return 1
    fi
    if [ $code -ne 1 ] && [ $code -ne 4 ]; then
        bad "$what: allocation $n: exit $code: $(head -c 500 err)"
    elif [ "$(grep -vc '^lockstep: warning: ' err)" -ne 1 ] || ! grep -q '^lockstep: .*memory' err; then
        bad "$what: allocation $n: not one line about memory: $(head -c 500 err)"
    elif [ $code -eq 4 ] && ! grep -q 'checkpoint\|manifest\|result' err; then
        bad "$what: allocation $n: exit 4: $(head -c 500 err)"
    fi
    return 0
}

# all_of WHAT FOLDER ARGS...: every n; FOLDER is what the command makes, removed before each
all_of() {
    local what=$1 folder=$2 n before=$failed n_refused=0 n_done=0
    shift 2
    rm -rf "$folder"
    if [ -d "$folder.base" ]; then cp -r "$folder.base" "$folder"; fi
    "$lockstep" "$@" --json -q >out 2>err </dev/null || { bad "$what: $(cat err)"; return; }
    hash=$(hash_in out)
    for ((n = 1; n < 100000; n += n < 40 ? 1 : stride)); do
        rm -rf "$folder"
        if [ -d "$folder.base" ]; then cp -r "$folder.base" "$folder"; fi
        if attempt "$what" $n "$@"; then
            n_refused=$((n_refused + 1)) n_done=0
        elif [ $((++n_done)) -ge $((stride == 1 ? 40 : 10)) ]; then
            break # this many in a row: there are no more to fail
        fi
    done
    if [ $n_refused -lt 20 ]; then bad "$what: only $n_refused failures"; return; fi
    if [ "$failed" -eq "$before" ]; then ok "$what: $n_refused allocations failed, one at a time"; fi
}
all_of 'train' run train "${tiny[@]}" --run run
"$lockstep" train "${tiny[@]}" -i 4 --run half.base -q --json >out 2>err || bad "the run to resume: $(cat err)"
all_of 'resume' half train "${tiny[@]}" --run half --resume auto
"$lockstep" train "${tiny[@]}" --run done1 -q --json >out 2>err || bad "the run to evaluate: $(cat err)"
all_of 'eval' none eval done1
if [ $stride -eq 1 ]; then all_of 'ref' run train "${tiny[@]}" --run run --device ref; fi

# After all of that a run resumes and ends as it should.
hash=$(hash_in done1/result.json)
rm -rf half
cp -r half.base half
LOCKSTEP_FAIL_ALLOC=600 "$lockstep" train "${tiny[@]}" --run half --resume auto -q --json >out 2>err
"$lockstep" train "${tiny[@]}" --run half --resume auto -q --json >out 2>err
equal 'a run that ran out of memory, resumed' "$? $(hash_in half/result.json)" "0 $hash"

finish
