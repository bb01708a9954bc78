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

# Open MPI's folder in /tmp, as an mpirun without our TMPDIR would leave it. The /tmp of this test is its own.
mkdir tmp shm
common=(--in "$work/tmp" --in "$work/shm")
left=$work/tmp/ompi.leftovers.0
mkdir -p "$left/pid.1"
if "$leftovers" "${common[@]}" build >out; then ok "a folder of Open MPI that is in use is not ours"; else bad "in use: $(cat out)"; fi
rmdir "$left/pid.1"
if "$leftovers" "${common[@]}" build >out; then bad 'a folder in /tmp is not seen'; else has 'a folder in /tmp' out "$left"; fi
rmdir "$left"
touch shm/lockstep-ab12
if "$leftovers" "${common[@]}" build >out; then bad 'a file in /dev/shm is not seen'; else has 'a file in /dev/shm' out "$work/shm/lockstep-ab12"; fi
rm shm/lockstep-ab12
touch tmp/others
if "$leftovers" "${common[@]}" build >out; then ok "what has another's name is not ours"; else bad "another's name: $(cat out)"; fi

# However deep the checkout is, a test stays in it.
deep=$work/$(printf 'deep%.0s' {1..40})
printf '%s\n' "source '$here/lib.sh'" 'pwd' 'echo "$TMPDIR"' >where.sh
TMPDIR=$deep bash where.sh "$lockstep" >out 2>err
equal 'in a deep folder: the working directory and TMPDIR are below it' "$(grep -c "^$deep/......\$" out) $(ls "$deep")" '2 '
finish
