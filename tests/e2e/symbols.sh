#!/usr/bin/env bash
# symbols.sh LOCKSTEP: what the libraries show to others: ls_ names only, the public ones under LOCKSTEP_0; nothing of ours runs
# before main.
source "$(dirname "$0")/lib.sh"
is_sanitized && skip_all 'built with sanitizers'
build=$(dirname "$lockstep") root=$(realpath "$here/../..")
command -v nm >/dev/null && command -v readelf >/dev/null || skip_all 'binutils are not installed'
[ -e "$build/liblockstep.so" ] && [ -e "$build/liblockstep.a" ] || skip_all 'the libraries are not beside the program'
shared=$build/liblockstep.so static=$build/liblockstep.a

equal 'soname' "$(readelf -d "$shared" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')" liblockstep.so.0
equal 'global in the static library, and not ls_' "$(nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | grep -v '^ls_' | sort -u)" ''
equal 'defined twice in the static library' "$(nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | sort | uniq -d)" ''
nm -D --defined-only "$shared" | awk '$2 != "A" { print $3 }' >exported
equal 'exported by the shared library, and not ls_' "$(grep -v '^ls_' exported)" ''
"$root/scripts/export-map" --names "$root"/include/lockstep/*.h >declared
sed -n 's/@@LOCKSTEP_0$//p' exported | LC_ALL=C sort >public
same_file 'public is what the headers declare' public declared
equal 'the rest is private' "$(grep -v '@@LOCKSTEP_\(0\|PRIVATE\)$' exported)" ''
has 'private names are there for plug-ins' exported 'ls_backend_ref@@LOCKSTEP_PRIVATE'
equal 'no constructors' "$(readelf -SW "$static" | grep -E '\.(init_array|ctors|fini_array|dtors)')" ''
finish
