#!/usr/bin/env bash
# killed.nightly.sh LOCKSTEP PROGRAMS [TRIALS]: the long form of promise.sh's column: a worker of a parameter server killed at a random step,
# 20 times for each network, one hash.
# test: timeout=1800
PROMISE_ROWS='softmax lenet5 residual' PROMISE_COLUMNS='ps killed' exec bash "$(dirname "$0")/promise.sh" "$1" "$2" "${3:-20}"
