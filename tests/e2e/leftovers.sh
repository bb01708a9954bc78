#!/usr/bin/env bash
# leftovers.sh LOCKSTEP: tests/leftovers finds files and processes that a test left behind, and nothing else.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
leftovers=$here/../leftovers
mkdir build
"$leftovers" --begin build
if "$leftovers" build >out; then ok 'nothing was left'; else bad "nothing was left: $(cat out)"; fi

mkdir -p build/t/ab12
if "$leftovers" build >out; then bad 'a folder is not seen'; else has 'a folder' out "$work/build/t/ab12"; fi
rmdir build/t/ab12

TMPDIR=$work/build/t/gone sleep 900 &
pids+=($!)
has_become() { [ "$(cat "/proc/$1/comm")" = sleep ]; }
eventually has_become $!
if "$leftovers" build >out; then bad 'a process is not seen'; else has 'a process' out "process $!: sleep"; fi
kill $!
wait $! 2>/dev/null

cp "$(command -v sleep)" build/program
build/program 900 &
pids+=($!)
is_running() { [ "$(readlink "/proc/$1/exe")" = "$work/build/program" ]; }
eventually is_running $!
if "$leftovers" build >out; then bad 'a program of the build is not seen'; else has 'a program of the build' out "process $!: build/program"; fi
kill $!
wait $! 2>/dev/null

# Open MPI's folder in /tmp, as an mpirun without our TMPDIR would leave it.
left=/tmp/ompi.leftovers.$$
mkdir -p "$left/pid.1"
if "$leftovers" build >out; then ok "a folder of Open MPI that is in use is not ours"; else bad "in use: $(cat out)"; fi
rmdir "$left/pid.1"
if "$leftovers" build >out; then bad 'a folder in /tmp is not seen'; else has 'a folder in /tmp' out "$left"; fi
rmdir "$left"
if "$leftovers" build >out; then ok 'nothing is left'; else bad "nothing is left: $(cat out)"; fi
finish
