#!/usr/bin/env bash
# accuracy.nightly.sh LOCKSTEP FAULTS: accuracy.sh with the trainings that take minutes.
# test: serial timeout=7200
exec bash "$(dirname "$0")/accuracy.sh" "${1:?usage: accuracy.nightly.sh path/to/lockstep}" "${2:--}" long
