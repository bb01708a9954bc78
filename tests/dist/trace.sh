#!/usr/bin/env bash
# trace.sh LOCKSTEP: one trace of two machines whose clocks have nothing in common and that see no file of each other.
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"
need_mpi
if ! unshare --time --monotonic 5000 -m true 2>/dev/null; then skip_all 'needs a clock of its own for a process (root, Linux 5.6)'; fi

# elsewhere ARGS...: the program on a machine that was started 5,000 s earlier, and whose runs/ is another
mkdir runs
cat >elsewhere <<END
#!/usr/bin/env bash
exec unshare --time --monotonic 5000 -m sh -c 'mount -t tmpfs none "$work/runs" && exec "\$@"' sh "$lockstep" "\$@"
END
chmod +x elsewhere
"$lockstep" train lenet5 digits -b 64 -i 60 -w 2 --trace --run "$work/runs/a" --mpi-args "$as machines 1 -- instead 1 $work/elsewhere --" -q >out 2>err ||
    bad "exit $?: $(tail -n 3 err)"
equal 'two machines, one clock' "$(python3 "$here/../e2e/trace.py" runs/a/trace.json runs/a/result.json 2)" ''
equal 'the communication of both' "$(grep -o '"thread_name","pid":.,"tid":[0-9]*,"args":{"name":"communication"' runs/a/trace.json | wc -l)" 2
equal 'rank 1 saw no run directory' "$(find runs/a -path '*ranks/1*')" ''
finish
