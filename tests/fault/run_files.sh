#!/usr/bin/env bash
# run_files.sh LOCKSTEP: every file of a run directory replaced by something else (a link, a link to nothing, a FIFO, a folder, a file
# that cannot be read, a device), then every command that reads or writes run directories. Each ends soon: with exit code 0 and the
# right result, or with one line and the exit code of the thing. Nothing outside the run directory is made, changed or removed.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/../e2e/lib.sh"

tiny=(softmax fake:1x8x8:4:48 -b 8 --shards 2 -t 1 -p 1 --keep 9)
hash_in() { sed -n 's/.*"weights_hash": "\([0-9a-f]*\)".*/\1/p' "$1"; }
train "${tiny[@]}" --epochs 2 --run whole
[ "$code" -eq 0 ] || { bad "the unbroken run: $(cat err)"; finish; }
hash=$(hash_in out)
train "${tiny[@]}" --epochs 2 -i 7 --run begun
newest=checkpoints/$(basename "$(newest_of begun)")
outside() { find outside -printf '%p %y %m %s %l\n' | sort; find outside -type f -exec sha256sum {} + | sort; }

# replace FILE KIND: 1 where that cannot be made. $begun is what is begun with.
begun=begun
replace() {
    rm -rf run outside
    mkdir outside
    cp -a "$begun" run
    echo precious >outside/file
    mkdir outside/folder
    echo precious >outside/folder/step-00000003.safetensors
    if [ "$2" != unreadable ]; then rm -rf "run/$1"; fi
    case $2 in
        link) ln -s "$work/outside/file" "run/$1" ;;
        folder-link) ln -s "$work/outside/folder" "run/$1" ;;
        dangling) ln -s "$work/outside/nothing" "run/$1" ;;
        fifo) mkfifo "run/$1" ;;
        folder) mkdir "run/$1" ;;
        device) ln -s /dev/zero "run/$1" ;;
        unreadable) [ "$(id -u)" -ne 0 ] && [ -e "run/$1" ] && chmod 0 "run/$1" ;;
    esac
}

# attempt WHAT COMMAND...: within the patience, never by a signal
attempt() {
    local what=$1
    shift
    outside >before
    timeout $patience "$@" >out 2>err </dev/null
    code=$?
    n_tried=$((n_tried + 1))
    case $code in
        0 | 1 | 2 | 3 | 4) ;;
        124) bad "$what: hangs" ;;
        *) bad "$what: exit $code: $(head -c 300 err)" ;;
    esac
    if [ $code -ne 0 ] && [ "$(grep -vc '^lockstep: warning: ' err)" -ne 1 ]; then bad "$what: not one line: $(head -c 500 err)"; fi
    outside >after
    cmp -s before after || bad "$what: something outside has changed: $(diff before after | head -n 4)"
}

for file in lock manifest.json metrics.jsonl result.json checkpoints "$newest" checkpoints/latest.safetensors checkpoints/best.safetensors; do
    n_tried=0 before_failed=$failed
    for kind in link folder-link dangling fifo folder device unreadable; do
        replace "$file" $kind || continue
        attempt "$file: $kind, resumed" "$lockstep" train "${tiny[@]}" --epochs 2 --run run --resume auto --json -q
        if [ $code -eq 0 ] && [ "$(hash_in out)" != "$hash" ]; then bad "$file: $kind, resumed: weights $(hash_in out), expected $hash"; fi
        replace "$file" $kind
        attempt "$file: $kind, begun" "$lockstep" train "${tiny[@]}" --epochs 2 --run run --json -q
        if [ $code -ne 4 ]; then bad "$file: $kind, begun: exit $code, expected 4: $(head -c 300 err)"; fi
        attempt "$file: $kind, eval" "$lockstep" eval run --json -q
        attempt "$file: $kind, inspect" "$lockstep" inspect run
    done
    if [ $failed -eq $before_failed ]; then ok "$file: $n_tried attempts"; fi
done

# A lab's folder, whose run is still to do. It goes on, or one line says why not.
printf '%s\n' 'title Tiny' 'base model=softmax data=fake:1x8x8:4:48 batch-size=8 threads=1 iterations=2' 'question Q1: Does it run?' \
    ' run one' >tiny.lab
"$lockstep" lab run tiny.lab --run lab-begun >out 2>err || bad "the unbroken lab: $(cat err)"
rm -r lab-begun/runs/* lab-begun/report*
sed -i 's/"done"/"waiting"/' lab-begun/state.json
begun=lab-begun
n_tried=0 before_failed=$failed
for file in lock lab.txt state.json runs runs/one-r1 runs/one-r1.log; do
    for kind in link folder-link dangling fifo device; do
        replace $file $kind
        attempt "a lab's $file: $kind, gone on" "$lockstep" lab run run -q
        case $file in runs* | lock) if [ $code -ne 4 ]; then bad "a lab's $file: $kind, gone on: exit $code, expected 4: $(cat err)"; fi ;; esac
    done
    replace $file fifo
    attempt "a lab's $file: fifo, begun" "$lockstep" lab run tiny.lab --run run -q
    expected=4
    if [ $file = state.json ]; then expected=0; fi # as if it had ended before it could write that: it is made anew
    if [ $code -ne $expected ]; then bad "a lab's $file: fifo, begun: exit $code, expected $expected: $(cat err)"; fi
    attempt "a lab's $file: fifo, report" "$lockstep" lab report run
done
rm -rf run && mkdir run && echo precious >run/lab.txt
attempt "somebody else's lab.txt" "$lockstep" lab run tiny.lab --run run -q
equal "somebody else's lab.txt is kept" "$code $(ls run) $(cat run/lab.txt)" '4 lab.txt precious'
if [ $failed -eq $before_failed ]; then ok "a lab's folder: $n_tried attempts"; fi

# The other files that a person names: a model, a table, a checkpoint, pictures.
n_tried=0 before_failed=$failed
mkdir -p outside
for kind in fifo folder device; do
    rm -rf thing.net outside/thing
    case $kind in fifo) mkfifo thing.net ;; folder) mkdir thing.net ;; device) ln -s /dev/zero thing.net ;; esac
    attempt "a model: $kind" "$lockstep" train ./thing.net fake:1x8x8:4:48 --run none -q
    attempt "a table: $kind" "$lockstep" train "${tiny[@]}" --tune thing.net --run none -q
    attempt "a checkpoint: $kind" "$lockstep" train "${tiny[@]}" --resume thing.net --run none -q
    attempt "a checkpoint to evaluate: $kind" "$lockstep" eval thing.net -q
    attempt "a file to inspect: $kind" "$lockstep" inspect thing.net
    attempt "pictures: $kind" "$lockstep" train softmax folder:thing.net --run none -q
    attempt "a run: $kind" "$lockstep" train "${tiny[@]}" --epochs 1 --run thing.net -q
    if [ $code -ne 0 ] && [ $code -ne 4 ]; then bad "a run: $kind: exit $code, expected 0 or 4"; fi
done
if [ -e none ]; then bad "a run directory is left: $(ls -A none)"; fi
if [ $failed -eq $before_failed ]; then ok "files that a person names: $n_tried attempts"; fi
finish
