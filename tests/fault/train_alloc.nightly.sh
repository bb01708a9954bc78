#!/usr/bin/env bash
# train_alloc.nightly.sh LOCKSTEP FAULTS: train_alloc.sh with every single allocation.
# test: timeout=3600
exec bash "$(dirname "$0")/train_alloc.sh" "${1:?usage: train_alloc.nightly.sh path/to/lockstep}" "${2:--}" long
