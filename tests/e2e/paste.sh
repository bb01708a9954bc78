#!/usr/bin/env bash
# paste.sh LOCKSTEP: every command that the program prints is complete: pasted into a shell it works.
#
# For each setting of the library, at a value that is not its default: a run that is stopped, in a directory whose name needs quoting; what
# it prints is pasted, and `train --resume RUN` with nothing else ends with the weights of the unbroken run.
# shellcheck disable=SC2154,SC2016 # what lib.sh assigns; quotes that another shell reads
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all 'python3 is not installed'
command -v cc >/dev/null || skip_all 'there is no C compiler'
is_sanitized && skip_all 'built with sanitizers: the commands are the same'
root=$(realpath "$here/../..") build=$(dirname "$lockstep")
cc -I"$root/include" "$here/other_options.c" -L"$build" -Wl,-rpath,"$build" -llockstep -o other_options 2>err ||
    { bad "the list of settings: $(cat err)"; finish; }
mkdir bin && ln -s "$lockstep" bin/lockstep
export PATH=$work/bin:$PATH

# commands FILE...: lines of output that begin with the program's name
commands() { sed -n 's/^ *\(lockstep [a-z].*\)$/\1/p; s/.*: \(lockstep train --resume .*\)$/\1/p' "$@" | sort -u; }
n_pasted=0
paste_all() { # WHAT FILE...
    local line
    commands "${@:2}" >pasted
    [ -s pasted ] || { bad "$1: no command in: $(head -c 300 "${@:2}")"; return; }
    while IFS= read -r line; do
        n_pasted=$((n_pasted + 1))
        timeout 120 bash -c "$line" >pasted.out 2>pasted.err </dev/null || bad "$1: '$line' ends with $?: $(tail -n 2 pasted.err)"
    done <pasted
}

# --- every setting ---
data=fake:1x8x8:4:96
run="it's a run"
net=(softmax "$data" --batch-size 16 --epochs 2 --log-every 5)
has_mpi=yes
train softmax $data -b 16 -i 2 --run first # for --init
cp first/checkpoints/latest.safetensors first.safetensors
./other_options >settings
n=0
while read -r name value more; do
    case $name in
    run | resume | json | quiet | accept-other-bits) continue ;; # of one call
    precision) continue ;; # no device of every build has another
    esac
    words=()
    # shellcheck disable=SC2086 # pairs of words
    set -- $name $value $more
    while [ $# -ge 2 ]; do
        case $2 in
        on) words+=("--$1") ;;
        off) words+=("--no-$1") ;;
        *) words+=("--$1" "$2") ;;
        esac
        shift 2
    done
    if [ "$value" = '?' ]; then bad "--$name: no other value is known; add one to other_options.c"; continue; fi
    rm -rf whole "$run"
    train "${net[@]}" "${words[@]}" --run whole
    if grep -q 'need mpirun\|need MPI' err; then has_mpi=no; continue; fi
    if [ "$code" -ne 0 ]; then bad "${words[*]}: exit code $code: $(head -n 1 err)"; continue; fi
    whole=$(field weights_hash)
    "$lockstep" train "${net[@]}" "${words[@]}" --run "$run" --iterations 4 --eval-every 1 >out 2>err
    "$lockstep" train --resume "$run" --iterations 0 --json -q >out2 2>err2 </dev/null
    case $name in
    epochs | iterations) ;; # another end
    *) equal "--resume alone, ${words[*]}" "$(field weights_hash out2)" "$whole" ;;
    esac
    paste_all "${words[*]}" out
    n=$((n + 1))
done <settings
note "$n settings, $n_pasted commands pasted, MPI: $has_mpi"
if [ "$n" -ge 43 ]; then ok "$n settings"; else bad "only $n settings were tried"; fi

# --- what a stop prints, at once and by a signal ---
"$lockstep" train lenet5 fake:1x28x28:10:4000 -b 16 --epochs 400 --run 'run 2' >out 2>err </dev/null &
pid=$!
pids+=("$pid")
eventually test -e 'run 2/manifest.json'
eventually has_lines 'run 2/metrics.jsonl' 1
kill -TERM $pid
wait $pid
equal 'a signal: exit code' $? 75
equal 'it prints one command, twice' "$(commands out err)" "lockstep train --resume 'run 2'"
"$lockstep" inspect 'run 2' >out 2>err
equal 'inspect prints the same' "$(commands out)" "lockstep train --resume 'run 2'"
"$lockstep" train --resume 'run 2' --iterations 1000 --threads 1 --json -q >out 2>err
equal 'it goes on, with other options beside' "$? $(field steps)" '0 1000'
"$lockstep" train softmax $data --run 'run 2' >out 2>err
has 'a directory that holds a run' err "go on with: lockstep train --resume 'run 2'"

# --- what is said, what is refused ---
rm -rf a
train softmax $data -b 16 --epochs 2 --lr 0.0031622776601683794 -i 5 --run a
"$lockstep" train --resume a --epochs 3 --iterations 0 >out 2>err
equal 'all digits of --lr, and the end' "$?" 0
has 'an option beside is said' err -- '--epochs 3 instead of the run'"'"'s 2'
"$lockstep" train --resume a --batch-size 32 >out 2>err
code=$?
one_line_error() { # warnings and notes may stand beside
    if [ "$code" -eq "$2" ] && grep -q "^lockstep: .*$3" err; then ok "$1"; else bad "$1: $code, $(cat err)"; fi
}
one_line_error 'what decides the weights is refused' 4 "batch_size '16', this run has '32'"
"$lockstep" train --resume nowhere >out 2>err
code=$?
one_line_error 'no such run' 4 'nowhere: there is no run'
"$lockstep" train --resume auto --run a --epochs 4 --json -q >out 2>err
equal '--resume auto --run a alone' "$? $(field epochs)" '0 4'
"$lockstep" train --resume auto --run b >out 2>err
code=$?
one_line_error '--resume auto where there is no run' 4 'there is no run in b'
"$lockstep" train --resume a/checkpoints/latest.safetensors --run c --json -q >out 2>err
equal 'a checkpoint alone, into a run of its own' "$? $(field epochs) $(field batch_size)" '0 4 16'
"$lockstep" train --resume a/manifest.json >out 2>err
code=$?
one_line_error 'a file that is no checkpoint' 4 'manifest.json'
finish
