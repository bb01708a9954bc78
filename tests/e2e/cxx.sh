#!/usr/bin/env bash
# cxx.sh LOCKSTEP: the library from C++: all public headers compile, without a warning, and what they declare is found.
source "$(dirname "$0")/lib.sh"
is_sanitized && skip_all 'built with sanitizers'
build=$(dirname "$lockstep") include=$(realpath "$here/../../include")
[ -e "$build/liblockstep.a" ] && [ -e "$build/lockstep-static.pc" ] || skip_all 'the library is not beside the program'
headers=("$include"/lockstep/*.h)
equal 'cxx.cpp names every header' "$(grep -c '#include "lockstep/' "$here/cxx.cpp")" "${#headers[@]}"
requires=$(sed -n 's/^Requires: //p' "$build/lockstep-static.pc")
# shellcheck disable=SC2086 # one word for each package
read -ra libraries < <(echo "$(sed -n 's/^Libs: [^ ]*//p' "$build/lockstep-static.pc") $(pkg-config --libs $requires)")
n=0
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || continue
    n=$((n + 1))
    rm -f program
    if $cxx -std=c++11 -Wall -Wextra -Werror -I"$include" "$here/cxx.cpp" "$build/liblockstep.a" "${libraries[@]}" -o program 2>err; then
        ok "$cxx: compiled and linked"
        equal "$cxx: runs" "$(./program)" 'sgd, batch 128: no model was named'
    else
        bad "$cxx: $(head -c 1500 err)"
    fi
done
[ $n -gt 0 ] || skip_all 'no C++ compiler is installed'
finish
