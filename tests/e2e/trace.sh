#!/usr/bin/env bash
# test: sanitize
# trace.sh LOCKSTEP: trace.json: what --trace writes is a trace, of all that happened and no more than was asked for; the weights
# are the same; a run that is killed leaves one that can be read.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
read_trace() { python3 "$here/trace.py" "$@"; }
ops_of() { grep -c '"cat":"op"' "$1/trace.json"; }
small=(train lenet5 digits -b 64 -i 60 -q)

"$lockstep" "${small[@]}" --run plain >/dev/null 2>err
"$lockstep" "${small[@]}" --trace --run a >/dev/null 2>err
equal 'a training with a trace' $? 0
if [ ! -e plain/trace.json ]; then ok 'none without --trace'; else bad 'a trace that nobody asked for'; fi
equal 'it is one' "$(read_trace a/trace.json a/result.json 1)" ''
equal 'the same weights' "$(field weights_hash a/result.json)" "$(field weights_hash plain/result.json)"
"$lockstep" "${small[@]}" --trace --trace-steps 5 --run b >/dev/null 2>err
equal 'ops of so many steps only' "$(($(ops_of a) / 10))" "$(ops_of b)"
"$lockstep" "${small[@]}" --trace --trace-steps 0 --no-record --run c >/dev/null 2>err
equal 'or of none' "$(ops_of c)" 0
if [ ! -e c/resources.csv ]; then ok '--no-record holds'; else bad '--no-record with --trace records'; fi
"$lockstep" "${small[@]}" --sync local:4 --trace --run d >/dev/null 2>err
equal 'replicas are threads too' "$(grep -c '"thread_name".*"replica' d/trace.json | sed 's/[1-9][0-9]*/some/')" some

# A run that is killed.
"$lockstep" train lenet5 digits -b 64 -i 1000000 --trace --run e -q >/dev/null 2>err &
pids+=($!)
eventually grep -qs '"cat":"op"' e/trace.json || bad 'nothing is written while it runs'
kill -KILL $! && wait $! 2>/dev/null
equal 'a run that was killed' "$(read_trace e/trace.json)" ''
# and goes on: a trace of this sitting
"$lockstep" train --resume a -i 70 --trace -q >/dev/null 2>err
equal 'a resumed run has one of its own' "$(grep -c '"cat":"step"' a/trace.json)" 10
"$lockstep" train softmax digits -i 5 --trace-steps -1 --run f 2>err
equal 'fewer than none' $? 2

if ! is_sanitized && "$lockstep" doctor | grep -q 'Open MPI: there'; then
    "$lockstep" "${small[@]}" --trace -w 2 --run g >/dev/null 2>err
    equal 'two workers in one file, on one clock' "$(read_trace g/trace.json g/result.json 2)" ''
    if [ ! -e g/ranks/1/trace.json ]; then ok 'and only there'; else bad 'that of rank 1 is left'; fi
fi
finish
