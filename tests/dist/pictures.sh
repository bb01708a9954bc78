#!/usr/bin/env bash
# pictures.sh LOCKSTEP: a job whose ranks see other pictures under the same names must not begin; one with copies gives the bits
# of one worker. Each rank has its own folder and its own memory of checksums, as on machines of their own.
source "$(dirname "$0")/lib.sh"
need_mpi
python3 "$here/lib.py" folder pics 24
mkdir copy
cp -r pics copy/pics
run_softmax() { # RUN ARGS...: exit code and result in code, out, err
    "$lockstep" train softmax folder:pics --resize 12 -b 16 --epochs 2 --timeout 300 --json --run "$@" >out 2>err </dev/null
    code=$?
}
run_softmax "$work/alone"
if grep -q 'reads no images' err; then skip_all 'this build reads no images'; fi
alone=$(field weights_hash)
run_softmax "$work/copied" -w 3 --mpi-args "$as machines 1 -- at 1 $work/copy --"
equal 'copies of the pictures: the weights of one worker' "$(field weights_hash)" "$alone"

refused() { # WHAT KIND RANK ARGS...
    local what=$1 kind=$2 rank=$3
    shift 3
    rm -rf "$work/refused"
    run_softmax "$work/refused" -w 3 "$@"
    if [ "$code" -ne 0 ]; then ok "$what: exit code $code"; else bad "$what: it trained: $(field weights_hash)"; fi
    if [ "$(grep -c "rank $rank on.*$kind" err)" -eq 1 ]; then ok "$what: $(grep "rank $rank on" err | cut -c 1-250)"
    else bad "$what: the difference is not told once: $(head -c 800 err)"; fi
    if has_lines "$work/refused/metrics.jsonl" 1; then bad "$what: a step was made"; fi
}
# One byte of one picture; its name, size and times are as before. Also where the memory knows the picture of before.
for memory in fresh kept; do
    [ $memory = kept ] || rm -rf cache
    touch -r copy/pics/train/dog/7.png stamp
    python3 "$here/lib.py" flip copy/pics/train/dog/7.png -20
    touch -r stamp copy/pics/train/dog/7.png
    refused "one pixel differs, $memory memory" 'training data' 1 --mpi-args "$as at 1 $work/copy --"
    refused "one pixel differs, 3 machines, $memory memory" 'training data' 1 --mpi-args "$as machines 1 -- at 1 $work/copy --"
    cp -p pics/train/dog/7.png copy/pics/train/dog/7.png
done
python3 "$here/lib.py" flip copy/pics/test/dog/7.png -20
refused 'one pixel of the test pictures differs' 'test data' 1 --mpi-args "$as at 1 $work/copy --"
finish
