#!/usr/bin/env bash
# test: sanitize
# record.sh LOCKSTEP: what a training records of itself, and `lockstep record` for any program.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"

# check FILE EXPRESSION: rows (dicts by column) satisfy it
check() {
    python3 - "$1" "$2" <<'END'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
seconds = [float(r["elapsed_time"]) for r in rows]
events = [r["event"] for r in rows if r.get("event")]
sys.exit(0 if eval(sys.argv[2]) else 1)
END
}
holds() { if check "$2" "$3"; then ok "$1"; else bad "$1: $3: $(head -n 3 "$2") ... $(tail -n 3 "$2")"; fi; }

# --- a training ---
"$lockstep" train softmax digits --epochs 2 --run a -q >/dev/null 2>err
equal 'a training ends well' $? 0
holds 'rows in the order of time' a/resources.csv 'len(rows) > 3 and seconds == sorted(seconds)'
holds 'its events' a/resources.csv 'events == ["evaluate", "epoch", "checkpoint"] * 2'
holds 'the last row has the last step' a/resources.csv 'rows[-1]["step"] == "938" and rows[-1]["epoch"] == "2"'
holds 'memory and threads' a/resources.csv 'all(float(r["mem_virtual"]) > float(r["mem_real"]) > 1 and int(r["threads"]) > 1 for r in rows)'
before=$(tail -n 1 a/resources.csv | cut -d, -f1)
"$lockstep" train softmax digits --epochs 3 --run a --resume auto -q >/dev/null 2>err
equal 'it goes on' $? 0
holds 'after a resume the time goes on' a/resources.csv "seconds == sorted(seconds) and seconds[-1] > $before and events[6] == 'resume'"
printf '1.5,1,3' >>a/resources.csv # as a kill leaves it
"$lockstep" train softmax digits --epochs 4 --run a --resume auto -q >/dev/null 2>err
holds 'half a row is cut off' a/resources.csv 'all(None not in r.values() and None not in r for r in rows)'
"$lockstep" train softmax digits -i 5 --no-record --run b -q >/dev/null 2>err
if [ ! -e b/resources.csv ]; then ok 'not with --no-record'; else bad '--no-record records'; fi
# What stands in the way is told once and stops nothing, and nothing is written through it.
echo precious >elsewhere
rm a/resources.csv && ln -s ../elsewhere a/resources.csv
"$lockstep" train softmax digits --epochs 5 --run a --resume auto -q >/dev/null 2>err
equal 'a link in its place: the training ends well' $? 0
has 'and says so' err 'not recorded'
equal 'the file behind the link' "$(cat elsewhere)" precious
if ! is_sanitized && "$lockstep" doctor | grep -q 'Open MPI: there'; then
    "$lockstep" train softmax digits --epochs 1 -w 2 --run c -q >/dev/null 2>err
    holds 'rank 1 has its own' c/ranks/1/resources.csv 'rows[-1]["step"] == "469"'
fi

# --- any program ---
"$lockstep" record --log log.txt --interval 0.05 -- sh -c 'sleep 0.4; exit 7' 2>err
equal 'the exit code is the command'\''s' $? 7
has 'the header is psrecord'\''s' log.txt '# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)'
has 'a line at the end' err 'at most; log in log.txt'
"$lockstep" record --log log.csv --log-format csv --include-io --include-children --interval 0.05 'until [ -e seen ]; do sleep 0.1; done' 2>err &
recorder=$!
pids+=("$recorder")
eventually check log.csv 'any(int(r["nproc"]) == 2 for r in rows)' 2>/dev/null
touch seen
wait $recorder
equal 'a command as one word' $? 0
has 'csv' log.csv 'elapsed_time,nproc,cpu,mem_real,mem_virtual,read_count,write_count,read_bytes,write_bytes'
holds 'children count' log.csv 'any(int(r["nproc"]) == 2 for r in rows)'
sleep 60 &
watched=$!
"$lockstep" record $watched --duration 0.2 >out 2>err
equal 'a process that runs already' $? 0
has 'neither log nor plot: it is printed' out '# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)'
kill $watched
# Whoever notices the end first, the sample or the one who waits: the exit code is the command's.
codes=
for _ in 1 2 3 4 5 6 7 8; do
    "$lockstep" record --interval 0.01 -- sh -c 'sleep 0.03; exit 7' >out 2>err
    codes+=" $?"
done
equal 'the exit code, often' "$codes" ' 7 7 7 7 7 7 7 7'
"$lockstep" record -- sh -c 'echo >begun; exec sleep 60' >out 2>err &
recorder=$!
pids+=("$recorder")
eventually test -e begun
kill -TERM $recorder
wait $recorder
equal 'a recorder that is told to end tells its command' $? 143
"$lockstep" record --plot use.svg --interval 0.05 -- sleep 0.3 2>err
equal 'a plot' $? 0
has 'of memory' use.svg 'Real memory'
# What is no file of its own is written into, and never waited for; a link is replaced.
mkfifo log.fifo
timeout $patience "$lockstep" record --log log.fifo -- sh -c 'echo >ran' 2>err
code=$?
one_line_error 'a fifo that nobody reads' 1 'log.fifo: nobody reads from it'
if [ -e ran ]; then bad 'a fifo that nobody reads: the command was started'; else ok 'a fifo that nobody reads: nothing was started'; fi
cat log.fifo >read.txt &
reader=$!
pids+=("$reader")
recorded() { "$lockstep" record --log log.fifo -- true 2>err || ! grep -q 'nobody reads' err; } # the reader may not be there yet
eventually recorded
has 'a fifo that is read' err 'log in log.fifo'
wait $reader
has 'a fifo that is read: the rows' read.txt '# Elapsed time'
echo precious >elsewhere
ln -sf elsewhere log.link
"$lockstep" record --log log.link -- true 2>err
equal 'a link: exit code, what is behind it' "$? $(cat elsewhere)" '0 precious'
has 'a link: replaced' log.link '# Elapsed time'
"$lockstep" record --log /dev/stdout -- true >out 2>err
has '/dev/stdout' out '# Elapsed time'
for wrong in 'record --plot x.gif -- true' 'record' 'record 999999999' 'record 1 -- true' 'record -- /nowhere/program'; do
    # shellcheck disable=SC2086
    "$lockstep" $wrong 2>err
    equal "$wrong: exit code" $? 2
done
finish
