#!/bin/sh
# data_fetch.sh LOCKSTEP: `lockstep data fetch` against a server on this machine that behaves badly on purpose.
#
# In:  the program; LOCKSTEP_DATA (a folder with MNIST/raw/*.gz as published; without it only the failures that need no true file
#      are tested, and that is said). Needs python3.
# test: sanitize
# Out: exit 0 if all cases hold, 1 if one does not, 77 if nothing could be tested.
set -u
lockstep=$(realpath -- "${1:?usage: data_fetch.sh path/to/lockstep}") || exit 2
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
"$lockstep" data fetch digits 2>&1 | grep -q "has no downloads" && { echo "skipped: built without downloads"; exit 77; }
work=$(mktemp -d)
server=
cleanup() { [ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$work"; }
trap cleanup EXIT INT TERM
n_failed=0

mkdir -p "$work/serve" "$work/data"
first=train-images-idx3-ubyte.gz
real=${LOCKSTEP_DATA:-/nonexistent}/MNIST/raw
has_real=no
if [ -f "$real/$first" ]; then
    has_real=yes
    cp "$real"/*-ubyte.gz "$work/serve/"
else
    echo "no published MNIST in LOCKSTEP_DATA: success and resume are NOT tested"
    head -c 9912422 /dev/zero >"$work/serve/$first"
fi

# The server: MODE decides what is done to the files. It writes its port and, for each request, the Range it was asked for.
start_server() { # mode
    [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null
    rm -f "$work/port"
    : >"$work/requests"
    python3 "$here/data_fetch_server.py" "$1" "$work/serve" "$work/port" "$work/requests" &
    server=$!
    while kill -0 "$server" 2>/dev/null && ! [ -s "$work/port" ]; do sleep 0.05; done
    url=http://127.0.0.1:$(cat "$work/port")/
}

fetch() { # exit code in $rc, messages in $work/log
    "$lockstep" data fetch mnist --data-dir "$work/data" --url "$url" >"$work/log" 2>&1
    rc=$?
}

check() { # name, condition as a command
    name=$1
    shift
    if "$@"; then
        echo "ok   $name"
    else
        echo "FAIL $name (exit code $rc; wanted: $*)"
        sed 's/^/     /' "$work/log"
        ls -l "$work/data/MNIST/raw" 2>/dev/null | sed 's/^/     /'
        n_failed=$((n_failed + 1))
    fi
}
raw=$work/data/MNIST/raw
fresh() { rm -rf "$work/data"; mkdir -p "$work/data"; }
is_code() { [ "$rc" -eq "$1" ]; }
says() { grep -q -- "$1" "$work/log"; }
no_file() { [ ! -e "$raw/$1" ]; }
has_bytes() { [ "$(stat -c %s "$raw/$1")" -eq "$2" ]; }

start_server wrong
fetch
check "wrong content: exit code 3" is_code 3
check "wrong content: says so" says "MD5"
check "wrong content: no file" no_file $first
check "wrong content: no part" no_file $first.part

fresh
start_server missing
fetch
check "not found: exit code 1" is_code 1
check "not found: says 404" says 404
check "not found: nothing left" no_file $first.part

fresh
start_server longer
fetch
check "endless file: stopped" says "more than"
check "endless file: no file" no_file $first

fresh
start_server redirect
fetch
check "redirect to a file: refused" is_code 1
check "redirect to a file: no file" no_file $first

# Something else in the place of the part: refused at once, and nothing is written through it.
start_server wrong
echo precious >"$work/elsewhere"
for kind in fifo link dangling folder; do
    fresh
    mkdir -p "$raw"
    case $kind in
        fifo) mkfifo "$raw/$first.part" ;;
        link) ln -s "$work/elsewhere" "$raw/$first.part" ;;
        dangling) ln -s "$work/nothing" "$raw/$first.part" ;;
        folder) mkdir "$raw/$first.part" ;;
    esac
    : >"$work/requests"
    fetch
    check "a part that is a $kind: exit code 1" is_code 1
    check "a part that is a $kind: named" says "$first.part"
    check "a part that is a $kind: nothing is asked for" [ ! -s "$work/requests" ]
    check "a part that is a $kind: no file" no_file $first
    check "a part that is a $kind: nothing outside changes" [ "$(cat "$work/elsewhere") $(ls "$work/nothing" 2>/dev/null)" = "precious " ]
done

fresh
start_server cut
fetch
check "connection cut again and again: exit code 1" is_code 1
check "connection cut again and again: says that it can go on" says "continued next time"
check "connection cut again and again: the part is kept" [ -s "$raw/$first.part" ]
check "connection cut again and again: no file" no_file $first

if [ $has_real = yes ]; then
    start_server good
    fetch
    check "resume: exit code 0" is_code 0
    check "resume: asked for the rest" grep -q "$first bytes=[1-9]" "$work/requests"
    check "resume: the same file" cmp -s "$raw/$first" "$real/$first"
    check "resume: no part left" no_file $first.part
    check "plain files beside" has_bytes train-images-idx3-ubyte 47040016
    : >"$work/requests"
    fetch
    check "second fetch: exit code 0" is_code 0
    check "second fetch: asks for nothing" [ ! -s "$work/requests" ]

    fresh
    mkdir -p "$raw"
    head -c 5000 /dev/urandom >"$raw/$first.part"
    fetch
    check "a part of something else: fetched again from nothing" is_code 0
    check "a part of something else: right in the end" cmp -s "$raw/$first" "$real/$first"

    fresh
    mkdir -p "$raw"
    head -c 100000 "$real/$first" >"$raw/$first.part"
    start_server norange
    fetch
    check "a server without ranges: exit code 0" is_code 0
    check "a server without ranges: the same file" cmp -s "$raw/$first" "$real/$first"
fi

# A full disk: a file system of 1 MB where that is allowed, else a limit on the size of files.
fresh
start_server good
if unshare -rm true 2>/dev/null && unshare -rm mount -t tmpfs -o size=1m none "$work/data" 2>/dev/null; then
    unshare -rm sh -c 'mount -t tmpfs -o size=1m none "$1/data" && "$2" data fetch mnist --data-dir "$1/data" --url "$3" >"$1/log" 2>&1
        echo $? >"$1/rc"; ls "$1/data/MNIST/raw" >"$1/left" 2>/dev/null' sh "$work" "$lockstep" "$url"
    rc=$(cat "$work/rc")
    check "full disk: exit code 1" is_code 1
    check "full disk: says so" says "[Nn]o space"
    check "full disk: no file" [ -z "$(grep -x "$first" "$work/left")" ]
fi
(
    trap '' XFSZ
    ulimit -f 2000
    "$lockstep" data fetch mnist --data-dir "$work/data" --url "$url" >"$work/log2" 2>&1
    echo $? >"$work/rc"
)
rc=$(cat "$work/rc")
cp "$work/log2" "$work/log"
check "a write that fails: exit code 1" is_code 1
check "a write that fails: says so" says "write .*part"
check "a write that fails: no file" no_file $first

[ $n_failed -eq 0 ] || { echo "$n_failed failed"; exit 1; }
