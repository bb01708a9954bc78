#!/usr/bin/env bash
# uninitialised.sh LOCKSTEP PROGRAMS: pictures, models and tables, whole and cut, under valgrind: no decision may hang on memory
# that nobody wrote. (Sanitizers do not see this kind of mistake, and MSan would need every library built anew.)
program=$(realpath -- "${2:?usage: $0 path/to/lockstep folder-of-the-test-programs}/read_cut") || exit 2
source "$(dirname "$0")/../e2e/lib.sh"
corpus=$(realpath "$here/../fuzz/corpus")
command -v valgrind >/dev/null || skip_all 'valgrind is not installed'
is_sanitized && skip_all 'AddressSanitizer does not run under valgrind'
export JSIMD_FORCENONE=1 # the library's vector code reads whole words, beyond what it uses
for kind in image model tune idx; do
    files=()
    for file in "$corpus/$kind"/*; do
        if [ $kind != idx ] || [[ $(basename "$file") == l* ]]; then files+=("$file"); fi
    done
    if [ $kind = model ]; then files+=("$here/../../models/svhn-cnn.net"); fi
    if [ $kind = idx ]; then # the fuzzer's first byte says which parser
        for i in "${!files[@]}"; do tail -c +2 "${files[i]}" >"idx.$i"; files[i]=idx.$i; done
    fi
    valgrind -q --error-exitcode=99 --exit-on-first-error=yes "$program" $kind "${files[@]}" >out 2>err
    code=$?
    if [ $code -eq 0 ]; then ok "$(cat out)"; else bad "$kind: exit code $code: $(cat out) $(head -c 2000 err)"; fi
done
finish
