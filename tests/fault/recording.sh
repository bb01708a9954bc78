#!/usr/bin/env bash
# test: sanitize
# recording.sh LOCKSTEP: whatever happens to the files of a recording (no room for them, something in their place, the run directory
# gone) costs the recording and a warning, never the training, and no bit of its weights.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/../e2e/lib.sh"
tiny=(train lenet5 fake:1x28x28:10:512 -b 32 --shards 2 -t 1 -p 1 --trace --checkpoint-every none)
hash_of() { field weights_hash "$1"; }
once() { equal "$1: told once" "$(grep -c "$2" err)" 1; }

"$lockstep" "${tiny[@]}" --epochs 3 --run whole >out 2>err
equal 'a run with nothing in its way' $? 0
hash=$(hash_of whole/result.json)

# No file may become larger than 16 kB: a full disk for those that grow.
(ulimit -f 16 && exec "$lockstep" "${tiny[@]}" --epochs 3 --run full) >out 2>err
equal 'files that cannot grow' $? 0
equal 'files that cannot grow: weights' "$(hash_of full/result.json)" "$hash"
once 'trace.json' 'trace.json ends here'
if [ "$(stat -c %s full/trace.json)" -le 16384 ]; then ok 'trace.json stays there'; else bad 'trace.json grew'; fi

# Something else in the place of every file.
n=0
for file in resources.csv ranks.csv trace.json ranks; do
    for kind in folder fifo dangling; do
        rm -rf run
        "$lockstep" "${tiny[@]}" --epochs 3 -i 20 --checkpoint-every 20 --run run >out 2>err || bad "a first part: $(tail -n 1 err)"
        rm -rf "run/${file:?}"
        case $kind in
            folder) mkdir "run/$file" ;;
            fifo) mkfifo "run/$file" ;;
            dangling) ln -s ../nothing "run/$file" ;;
        esac
        timeout $patience "$lockstep" "${tiny[@]}" --epochs 3 --run run --resume auto >out 2>err
        code=$?
        if [ $code -ne 0 ] || [ "$(hash_of run/result.json)" != "$hash" ]; then bad "$file: $kind: exit $code: $(tail -n 2 err)"; fi
        if [ -e nothing ]; then bad "$file: $kind: written through it"; fi
        n=$((n + 1))
    done
done
ok "$n things in the place of a file"

# The run directory goes while it trains. What it was to hold at the end has no place, so that is its exit code; every step was done.
"$lockstep" "${tiny[@]}" --epochs 40 --run gone --json >out 2>err &
pids+=($!)
eventually grep -qs '"cat":"op"' gone/trace.json
rm -rf gone
wait $!
equal 'a run directory that is gone: told at the end' $? 4
has 'every epoch was done' err 'epoch 40/40'

# A disk that is full for a while.
if mkdir small && mount -t tmpfs -o size=2m none small 2>/dev/null; then
    mounts+=("$work/small")
    "$lockstep" "${tiny[@]}" --epochs 40 --run whole40 >out 2>err
    "$lockstep" "${tiny[@]}" --epochs 40 --run small/run >out 2>err &
    pids+=($!)
    eventually grep -qs '"cat":"op"' small/run/trace.json
    head -c 3000000 /dev/zero >small/filler 2>/dev/null
    eventually grep -q 'No space left' err
    rm small/filler
    wait $!
    equal 'a disk that is full for a while' $? 0
    equal 'and its weights' "$(hash_of small/run/result.json)" "$(hash_of whole40/result.json)"
else
    skipped 'a disk that is full: needs root'
fi
finish
