#!/usr/bin/env bash
# use_alloc.sh LOCKSTEP: the n-th allocation of an export, a classification and an evaluation by class fails, for n = 1, 2, ... (each of
# the first 20 and then every 7th): exit code 1 or 4 and one line each time, never a crash, and no file but a whole one.
# test: sanitize
source "$(dirname "$0")/../e2e/lib.sh"
cat >net.net <<'END'
model net
input any
conv conv1 4 3 pad=1 bias=no
bn bn1
gelu
groupnorm g 2
adaptiveavgpool 3x3
flatten
linear fc classes
END
"$lockstep" train ./net.net digits -b 64 -i 2 --no-eval --run run -q >/dev/null 2>&1 || skip_all "no run could be made"
python3 "$here/shapes.py" pictures 1 12

# until_it_works WHAT CODE FILE ARGS...: CODE is that of success; FILE is whole or absent
until_it_works() {
    local what=$1 good=$2 file=$3 n=0 before
    shift 3
    "$lockstep" "$@" >out 2>err </dev/null
    code=$?
    if [ "$code" -ne "$good" ]; then bad "$what: exit $code: $(head -c 300 err)"; return; fi
    before=$(sha256sum <"$file")
    while :; do
        n=$((n < 20 ? n + 1 : n + 7))
        rm -f "$file"
        LOCKSTEP_FAIL_ALLOC=$n timeout $patience "$lockstep" "$@" >out 2>err </dev/null
        code=$?
        [ "$code" -ne "$good" ] || break
        if [ "$code" -ne 1 ] && [ "$code" -ne 4 ]; then bad "$what: allocation $n: exit $code: $(head -c 300 err)"; return; fi
        if [ "$(grep -c '^lockstep: ' err)" -lt 1 ]; then bad "$what: allocation $n says nothing"; return; fi
        if [ -e "$file" ] && [ "$(sha256sum <"$file")" != "$before" ]; then bad "$what: allocation $n: another $file"; return; fi
        if [ $n -gt 3000 ]; then bad "$what: never works"; return; fi
    done
    ok "$what: $n allocations"
}

if "$lockstep" export run --onnx net.onnx -q >/dev/null 2>&1; then
    until_it_works "export to ONNX" 0 net.onnx export run --onnx net.onnx --fold --pixels bytes --force
fi
until_it_works "export to safetensors" 0 net.safetensors export run --safetensors net.safetensors --force
if "$lockstep" classify run pictures -q >/dev/null 2>&1; then
    until_it_works "classify" 3 answers.csv classify run pictures missing.png --csv answers.csv -t 2
fi
until_it_works "eval by class" 0 matrix.svg eval run --per-class --confusion=matrix.svg -o answers.csv --top 3 -t 2
finish
