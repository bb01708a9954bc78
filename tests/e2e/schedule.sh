#!/usr/bin/env bash
# schedule.sh LOCKSTEP: options of the optimizer and the schedule: what has no effect is told, what would break is refused, and the rates
# in metrics.jsonl are those of the steps.
# test: sanitize
# shellcheck disable=SC2154 # what lib.sh assigns
source "$(dirname "$0")/lib.sh"

# told WHAT-IT-SAYS ARGS...: trains, with this one warning
told() {
    rm -rf run
    train softmax digits -i 1 --no-eval --run run "${@:2}"
    equal "trains with ${*:2}" "$code" 0
    equal "and says so once" "$(grep -c "warning: $1" err)/$(grep -c warning: err)" "$([ "$1" = none ] && echo 0/0 || echo 1/1)"
}
told "--momentum has an effect only with --optimizer sgd" --optimizer adamw --momentum 0.9
told "--beta2 has an effect only with --optimizer adamw" --beta2 0.99
told "--milestones has an effect only with --schedule multistep" --milestones 1,2
told "--warmup-epochs has an effect only with schedules other than onecycle" --schedule onecycle --warmup-epochs 1
told "--min-lr has an effect only with --schedule cosine" --schedule constant --min-lr 0.1
told "--key has an effect only with --server" --key nowhere.key
told "--gamma has an effect only with --schedule step or multistep" --gamma 0.5
told "--rescue-every has an effect only with --max-restarts" --rescue-every 5
told none --optimizer adamw --beta1 0.8 --beta2 0.99 --eps 1e-6 --schedule cosine --min-lr 0.0001 --warmup-epochs 1
told none --momentum 0.8 --nesterov --schedule multistep --milestones 1,2 --gamma 0.5

"$lockstep" train softmax digits -i 1 --run no --optimizer adamw --beta2 0.99999999 -q >out 2>err
equal "a beta that is 1 in float32 is refused" "$?" 2
has "with the range" err "--beta2 0.99999999: expected a number from 0 to 0.9999999"
train softmax digits -i 5 --run most --optimizer adamw --beta1 0.9999999 --beta2 0.9999999
equal "the largest betas train" "$code" 0

# A run ended by -i within an epoch: the test line has the rate of the last step.
train softmax digits -b 64 -i 3 --log-every 1 --run short
last=$(grep '"split": "train"' short/metrics.jsonl | tail -n 1 | grep -o '"lr": [^,]*')
equal "the rate in the last test line" "$(grep '"split": "test"' short/metrics.jsonl | grep -o '"lr": [^,]*')" "$last"

finish
