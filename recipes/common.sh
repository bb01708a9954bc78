# shellcheck shell=sh
# common.sh: what the recipes share. A recipe sets about, data, target (percent of the test set) and sources this file, which takes the
# command line and finds the program; then it calls `train MODEL OPTIONS...`, which trains, prints one line and ends.
#
# In:   [SEED] [OPTION...], options for `lockstep train`, as --threads 1 or --data-dir DIR; LOCKSTEP names the program, otherwise
#       build/lockstep of this checkout, otherwise the one on the path.
# Out:  the line on stdout, progress on stderr; exit code 0: the target was reached, 10: it was not, otherwise that of `lockstep train`.
set -eu
name=$(basename -- "$0")
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

usage() {
    cat <<EOF
$name: $about

Usage: recipes/$name [SEED] [OPTION...]

SEED       of all random numbers (default: 1)
OPTION...  more options for \`lockstep train\`, as --threads 1 or --data-dir DIR

Trains, prints one line, and ends with 0 if $target % of the test images were right, with 10 if they were
not, and with the exit code of \`lockstep train\` if that failed. LOCKSTEP names the program (default:
build/lockstep, then the one on the path). The data are found as always; \`lockstep data fetch $data\`
gets them. Everything else is in docs/guide/recipes.md.
EOF
}

before=
for word in "$@"; do
    case $word in
    -h | --help) usage; exit 0 ;;
    --data-dir=*) export LOCKSTEP_DATA="${word#*=}" ;; # n_images has to find the data too
    esac
    [ "$before" != --data-dir ] || export LOCKSTEP_DATA="$word"
    before=$word
done
seed=1
case ${1-} in
'' | -*) ;;
*[!0-9]*) echo "$name: '$1' is not a seed; expected a number, then options (--help explains)" >&2; exit 2 ;;
*) seed=$1; shift ;;
esac

lockstep=${LOCKSTEP:-$here/../build/lockstep}
[ -n "${LOCKSTEP:-}" ] || [ -x "$lockstep" ] || lockstep=$(command -v lockstep) ||
    { echo "$name: no build/lockstep and no lockstep on the path; run make, or name the program with LOCKSTEP" >&2; exit 1; }
command -v "$lockstep" >/dev/null || { echo "$name: LOCKSTEP=$lockstep is not a program" >&2; exit 1; }

# n_images: how many training images there are; fails with the program's message (which names `data fetch`) if they are missing
n_images() {
    "$lockstep" data info "$data" -q >"$folder/info" || exit
    sed -n 's/^train: \([0-9]*\) images.*/\1/p' "$folder/info"
}

# value KEY: a number of result.json
value() { sed -n "s/^ *\"$1\": \"\{0,1\}\([^,\"]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$folder/run/result.json" | head -n 1; }

# train MODEL OPTIONS...: the recipe's, then those of the command line
train() {
    code=0
    model=$1
    shift
    "$lockstep" train "$model" "$data" --seed "$seed" --run "$folder/run" --checkpoint-every none --eval-every 0 "$@" >/dev/null || code=$?
    [ "$code" -eq 0 ] || exit "$code"
    awk -v name="$name" -v seed="$seed" -v target="$target" -v accuracy="$(value test_accuracy)" -v train="$(value train_seconds)" \
        -v total="$(value total_seconds)" -v epochs="$(value epochs)" -v threads="$(value threads)" -v hash="$(value weights_hash)" 'BEGIN {
        reached = 100 * accuracy >= target
        printf "%s: %.2f %% (target %s %%: %s), %.1f s of training, %.1f s in all; %d epochs, %d thread%s, seed %s, weights %s\n", name,
            100 * accuracy, target, reached ? "reached" : "MISSED", train, total, epochs, threads, threads == 1 ? "" : "s", seed, hash
        exit reached ? 0 : 10
    }' || exit
    exit 0
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/$name.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
