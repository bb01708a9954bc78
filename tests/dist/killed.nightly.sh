#!/usr/bin/env bash
# killed.nightly.sh LOCKSTEP PROGRAMS [TRIALS]: the long form of elastic.sh's promise: a worker killed at a random step, 20 times, one hash.
# test: timeout=1800
LOCKSTEP_TEST_PART=killed exec bash "$(dirname "$0")/elastic.sh" "$1" "$2" "${3:-20}"
