#!/usr/bin/env bash
# A device that does not keep the data set (tests/plugins/far.c, LOCKSTEP_KEEP_MIB=0): the bytes of the next step are fetched while this
# one is computed, and weights, metrics and errors are those of a set that is kept.
# test: sanitize
source "$(dirname "$0")/lib.sh"
plugins=$(dirname "$lockstep")/plugins
[ -e "$plugins/lockstep-far.so" ] || skip_all "the test plug-in was not built"
export LOCKSTEP_PLUGINS=$plugins LOCKSTEP_FAR_COUNT=1 LOCKSTEP_FAR_RECORDING=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# on NAME MIB ARGS...: trains on far, which keeps sets of so many MiB; leaves code, NAME.out, NAME.err; prints the hash
on() {
    local name=$1 mib=$2
    shift 2
    rm -rf "$name"
    LOCKSTEP_KEEP_MIB=$mib "$lockstep" train "$@" --device far --threads 1 --no-record --run "$name" --json >"$name.out" 2>"$name.err" </dev/null
    code=$?
    field weights_hash "$name.out"
}
# fetches NAME: how many there were while the device computed, and how many were found, over all ranks
fetches() { sed -n 's/.*far: \([0-9]*\) fetches, \([0-9]*\) found$/\1 \2/p' "$1.err" | awk '{ n += $1; found += $2 } END { print n, found }'; }
# alike NAME FETCHES ARGS...: streamed as kept, with so many fetches (of which so many were found)
alike() {
    local name=$1 expected=$2 kept
    shift 2
    kept=$(on "$name-kept" 1000 "$@")
    [ -n "$kept" ] || note "$(tail -n 1 "$name-kept.err")"
    equal "$name: the weights of a set that is kept" "$(on "$name" 0 "$@")" "${kept:-none}"
    equal "$name: fetched, found" "$(fetches "$name")" "$expected"
    equal "$name: what is kept is not fetched" "$(fetches "$name-kept")" "0 0"
    same_file "$name: metrics" <(metrics_of "$name") <(metrics_of "$name-kept")
}
alike one-shard "29 29" softmax digits -i 30 -b 32 --shards 1 --no-eval
alike shards "9 9" softmax digits -i 10 -b 32 --shards 4 --no-eval --crop-pad 2
alike mixed "9 9" softmax digits -i 10 -b 32 --shards 2 --no-eval --mixup 0.4 --cutmix 1 --brightness 0.3
alike norm "9 9" softmax digits -i 10 -b 32 --shards 1 --no-eval --clip-norm 0.1
# an epoch of 64 steps, the last of 4 images; between two of them an evaluation of several loads, behind which what was fetched is lost
alike epochs "191 189" softmax fake:1x8x8:4:508 --epochs 3 -b 8 --shards 1 --log-every 1
equal "no recording" "$(LOCKSTEP_FAR_RECORDING=0 on plain 0 softmax digits -i 30 -b 32 --shards 1 --no-eval)" "$(field weights_hash one-shard.out)"
equal "no recording: fetched, found" "$(fetches plain)" "29 29"
LOCKSTEP_KEEP_MIB=0 LOCKSTEP_FAR_RECORDING=0 "$lockstep" train softmax digits -i 30 -b 32 --shards 4 --no-eval --device far --threads 3 --run threads --json >threads.out 2>threads.err
equal "3 threads" "$(field weights_hash threads.out)" "$(on four 1000 softmax digits -i 30 -b 32 --shards 4 --no-eval)"

# --- stopped and resumed
on half 0 softmax digits -i 13 -b 32 --shards 1 --no-eval >/dev/null
LOCKSTEP_KEEP_MIB=0 "$lockstep" train --resume half -i 30 --device far --threads 1 --no-eval --json >half.out 2>half.err || note "$(tail -n 1 half.err)"
equal "resumed" "$(field weights_hash half.out)" "$(field weights_hash one-shard.out)"

# --- a step that fails while the next one's bytes are there already
if ! is_sanitized; then # LeNet-5 on ref is long with sanitizers
    on nan 0 lenet5 digits -i 30 -b 32 --shards 1 --no-eval --lr 1e6 >/dev/null
    equal "diverging: exit code" "$code" 5
    on nan-kept 1000 lenet5 digits -i 30 -b 32 --shards 1 --no-eval --lr 1e6 >/dev/null
    has "diverging: it names the layer" nan.err "came out of"
    equal "diverging: the same message" "$(grep '^lockstep: ' nan.err)" "$(grep '^lockstep: ' nan-kept.err)"
fi

# --- pictures are decoded into memory of the loader that it uses again
python3 "$here/lib.py" folder pics 8
if "$lockstep" data info folder:pics >info.out 2>info.err; then
    pics=(./net folder:pics --epochs 4 -b 4 --resize 24x24 --no-eval --shards 1)
    printf '%s\n' "model net" "input any" "conv conv1 4 5" relu "maxpool 2" flatten "linear fc classes" >net
    folder=$(on folder 0 "${pics[@]}")
    LOCKSTEP_KEEP_MIB=0 "$lockstep" train "${pics[@]}" --device ref --threads 1 --run folder-ref --json >folder-ref.out 2>folder-ref.err || note "$(tail -n 1 folder-ref.err)"
    equal "a folder: ref's weights" "${folder:-none: $(tail -n 1 folder.err)}" "$(field weights_hash folder-ref.out)"
    equal "a folder: fetched, found" "$(fetches folder)" "15 15"
    # one that cannot be read ends the run at its step, not before
    printf 'no picture' >pics/train/cat/3.png
    on broken 0 "${pics[@]}" --log-every 1 >/dev/null
    equal "a broken picture: exit code" "$code" 3
    has "a broken picture: it is named" broken.err "3.png"
else
    skipped "folders: $(head -n 1 info.err)"
fi

# --- several processes, by the devices and through the host
if command -v mpirun >/dev/null && ls "$(dirname "$lockstep")"/lockstep-*mpi*.so >/dev/null 2>&1; then
    run=(softmax digits -i 10 -b 32 --shards 2 --no-eval --no-balance)
    kept=$(on ranks-kept 1000 "${run[@]}")
    for sums in 1 one-cannot; do
        equal "2 processes, sums by devices: $sums" "$(LOCKSTEP_FAR_SUMS=$sums on "ranks-$sums" 0 "${run[@]}" -w 2)" "${kept:-none}"
        equal "2 processes, sums by devices: $sums: fetched, found" "$(fetches "ranks-$sums")" "18 18"
    done
else
    skipped "several processes: no MPI here"
fi
finish
