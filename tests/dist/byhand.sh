#!/usr/bin/env bash
# byhand.sh LOCKSTEP: a worker that is started by hand: what it says while nobody is there, which keys and data it is refused for, and what the
# server knows of it.
# shellcheck disable=SC2154,SC2086 # what lib.sh assigns; words without blanks
source "$(dirname "$0")/lib.sh"
unset LOCKSTEP_DATA MASTER_ADDR MASTER_PORT WORLD_SIZE RANK

"$lockstep" server --keygen keys >/dev/null 2>err || skip_all "$(sed 's/^lockstep: //' err)"
"$lockstep" server --keygen others >/dev/null

timeout=300
# refused WHAT TEXT ARGS...: a worker that ends at once, by exit code 2 and with the text
refused() {
    "$lockstep" train --server "$address" --timeout 300 -t 1 "${@:3}" >out 2>err </dev/null
    code=$?
    one_line_error "$1" 2 "$2"
}

# --- nobody is there ---
free_port
"$lockstep" train --server "127.0.0.1:$port" --timeout 2.5 >out.w 2>err.w </dev/null &
pids+=("$!")
worker=$!
"$lockstep" train --sync ps --nodes 2 --rank 1 --master "127.0.0.1:$port" --servers 2 --timeout 2.5 >out.n 2>err.n </dev/null
equal 'nobody there: a node: exit code' "$?" 6
wait "$worker"
equal 'nobody there: a worker: exit code' "$?" 6
for one in w n; do
    has "nobody there: what it waits for, and how long ($one)" err.$one "no answer from a server at 127.0.0.1:$port yet; waiting for it, up to 2.5 s (--timeout)"
    equal "nobody there: said once ($one)" "$(grep -c 'waiting for it' err.$one)" 1
done

# --- keys ---
serve closed softmax digits --epochs 100000 --no-record --no-eval --key keys/server.key
refused 'no key, and the server has one' 'wants a key'
refused 'a key that the server does not take' "does not take this worker's key" --key others/worker.key
refused 'the key of a node' "does not take this worker's key" --key keys/node.key
for mode in 0644 0640 0604; do
    chmod $mode others/worker.key others/server.key
    refused "a worker's key that others may read ($mode)" "has mode $mode: others may read the key" --key others/worker.key
    "$lockstep" server softmax digits --listen 127.0.0.1:0 --run "$work/never" --key others/server.key >out 2>err </dev/null
    code=$?
    one_line_error "a server's key that others may read ($mode)" 2 "has mode $mode: others may read the key"
done
kill -KILL "$server" && wait "$server" 2>/dev/null
serve open softmax digits --epochs 100000 --no-record --no-eval
has 'a server without a key says who can take part' open.err 'without a key anybody on this machine can take part'
refused 'a key, and the server has none' 'has no key' --key keys/worker.key

# --- threads ---
"$lockstep" train --server "$address" --timeout 60 >out.w 2>err.w </dev/null &
pids+=("$!")
worker=$!
eventually grep -q 'worker 0 joined' open.err || bad "it does not join: $(cat err.w open.err)"
equal 'threads of a worker without -t: as it says itself' \
    "$(sed -n 's/.*worker 0 joined at step .*, \([0-9]*\) threads\?, pid.*/\1/p' open.err)" "$(sed -n 's/^computing for .*, \([0-9]*\) threads\?$/\1/p' err.w)"
kill -TERM "$worker"
wait "$worker"
kill -KILL "$server" && wait "$server" 2>/dev/null

# --- other data ---
mkdir one other
python3 "$here/lib.py" folder one/pics 8
cp -r one/pics other
python3 "$here/lib.py" flip other/pics/train/cat/3.png -20
if "$lockstep" data info folder:one/pics 2>&1 | grep -q 'reads no images'; then
    skipped 'other data: this build reads no images'
    finish
fi
cd one || exit 2
serve pictures softmax folder:pics --resize 8 -b 4 --epochs 100000 --no-record --no-eval
cd ../other || exit 2
refused 'other data' "are not those that the server at $address trains with"
has 'other data: what to do' err "copy the server's"
finish
