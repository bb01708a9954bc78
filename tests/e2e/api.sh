#!/usr/bin/env bash
# api.sh LOCKSTEP: `make api` renders the public headers without a warning, and every public function is in it.
source "$(dirname "$0")/lib.sh"
root=$(realpath "$here/../..")
command -v doxygen >/dev/null || skip_all 'doxygen is not installed'
is_sanitized && skip_all 'built with sanitizers: the headers are the same'
mkdir api
(cd "$root" && { cat docs/Doxyfile; echo "OUTPUT_DIRECTORY = $work/api"; } | doxygen -) >out 2>err
equal 'doxygen: exit code' $? 0
equal 'doxygen: warnings' "$(head -n 5 out err | grep -i -A1 warning)" ''
for name in $("$root/scripts/export-map" --names "$root"/include/lockstep/*.h); do
    grep -rqF ">$name<" api/html/*.html || bad "$name is not in the reference"
done
finish
