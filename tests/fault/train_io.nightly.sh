#!/usr/bin/env bash
# train_io.nightly.sh LOCKSTEP FAULTS: train_io.sh with every call.
# test: timeout=3600
exec bash "$(dirname "$0")/train_io.sh" "${1:?usage: train_io.nightly.sh path/to/lockstep}" "${2:--}" long
