#!/usr/bin/env bash
# documents.sh LOCKSTEP: what the documents print is what the program prints: the first training of README and guide, to
# the last bit of its weights. The hash holds for the instructions and the library it was made with; elsewhere this skips.
source "$(dirname "$0")/lib.sh"
is_sanitized && skip_all 'built with sanitizers'
root=$(realpath "$here/../..")
"$lockstep" doctor >doctor.txt 2>&1
grep -q 'cpu: oneDNN 2\.6\..*avx512' doctor.txt || skip_all 'the documents were made with oneDNN 2.6 and AVX-512'
"$lockstep" train lenet5 digits --epochs 2 --run runs/first >out 2>err
equal 'the first training ends well' $? 0
hash=$(sed -n 's/^  weights  *//p' out)
for page in README.md docs/guide/first-steps.md; do
    documented=$(grep -oE '\b[0-9a-f]{32}\b' "$root/$page" | sort -u)
    equal "the hash in $page" "$documented" "$hash"
done
accuracy=$(sed -n 's/^  test accuracy  *\([0-9.]* %\).*/\1/p' out)
has 'the accuracy in README.md' "$root/README.md" "test accuracy   $accuracy"
finish
