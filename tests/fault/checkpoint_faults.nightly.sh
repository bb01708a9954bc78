#!/bin/bash
# checkpoint_faults.nightly.sh: checkpoint_faults.sh in its long form.
# test: timeout=3600
exec bash "$(dirname "$0")/checkpoint_faults.sh" "$1" "$2" long
