#!/usr/bin/env bash
# unused.sh LOCKSTEP: an option that does nothing beside the others is accepted, and one line says when it would do something.
# (That every option is thought of: tests/unit/test_options.c.)
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"

# says WHAT WARNING: the one warning in err begins so; "none": there is none
says() {
    local expected=1/1
    if [ "$2" = none ]; then expected=0/0; fi
    equal "$1" "$(grep -cF -- "warning: $2" err)/$(grep -c 'has an effect only' err)" "$expected"
    if [ "$(grep -c 'has an effect only' err)" != "${expected#*/}" ]; then note "$(cat err)"; fi
}
# told WARNING ARGS...: trains, and says so
told() {
    rm -rf run
    train softmax "${data:-digits}" -i 1 --no-eval --run run "${@:2}"
    says "train ${data:-digits} ${*:2}" "$1"
    if [ "$code" -ne 0 ]; then bad "trains with ${*:2}: exit code $code: $(cat err)"; fi
}
told '--trace-steps has an effect only with --trace' --trace-steps 3
told none --trace --trace-steps 3
told '--lease has an effect only with --sync ps, async or ssp:K' --lease 3
told '--backup has an effect only with --sync ps' --backup 1
told '--accept-other-bits has an effect only with --resume' --accept-other-bits
told '--hue has an effect only with images in colour' --hue 0.1
told '--saturation has an effect only with images in colour' --saturation 0.1
told '--isa has an effect only with --device cpu' --device ref --isa avx2
told '--tune has an effect only with a --device other than ref' --device ref --tune none
told '--data-dir has an effect only with data sets that are read from files' --data-dir .
told '--procs-per-node has an effect only with --hosts or --nodes' --procs-per-node 1
told '--max-restarts has an effect only with --workers (2 or more)' -w 1 --max-restarts 1
told '--balance has an effect only with --hosts, --nodes or --gpus' --no-balance
told '--eval-every has an effect only without --no-eval' --eval-every 2
told none --validation 0.1 --eval-every 2 --patience 2
told '--patience has an effect only with --eval-every above 0' --validation 0.1 --eval-every 0 --patience 2
data=fake:1x28x28:10:100 told '--hue has an effect only with images in colour' --hue 0.1
data=fake:3x28x28:10:100 told none --hue 0.1 --saturation 0.1

# Other commands that take them.
"$lockstep" eval run --device ref --isa avx2 >out 2>err
says 'eval --device ref --isa avx2' '--isa has an effect only with --device cpu'
"$lockstep" predict softmax --mpi-args -v --seconds 0 >out 2>err
says 'predict --mpi-args' '--mpi-args has an effect only with --workers'

# Servers and workers. Neither ends by itself: nobody comes, nobody is there.
is_said() { grep -q -- "$last" err; }
is_settled() { is_said || is_gone "$!"; }
waits() { # COMMAND...: until it says LAST, which is behind all warnings
    : >err # the child empties it, too, but perhaps after we have looked
    "$lockstep" "$@" >out 2>err </dev/null &
    pids+=($!)
    eventually is_settled
    if ! is_said; then bad "$*: never said '$last': $(cat err)"; fi
    kill -KILL $!
    wait $! 2>/dev/null
}
if "$lockstep" server --keygen keys --lr 0.1 >out 2>err; then
    says 'server --keygen --lr' '--lr has an effect only without --keygen'
    last='parameter server at'
    waits server softmax digits --run served --listen 127.0.0.1:0 --optimizer adamw --momentum 0.9
    says 'server --optimizer adamw --momentum' '--momentum has an effect only with --optimizer sgd'
    waits server softmax digits --run served2 --listen 127.0.0.1:0 --milestones 3 --lease 4 --backup 1 --timeout 60
    says 'server --milestones' '--milestones has an effect only with --schedule multistep'
else skipped "this build has no parameter server: $(head -n 1 err)"; fi
finish
