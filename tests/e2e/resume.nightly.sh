#!/usr/bin/env bash
# resume.nightly.sh LOCKSTEP FAULTS: resume.sh with 20 random kills and kills before many more system calls.
# test: timeout=3600
exec bash "$(dirname "$0")/resume.sh" "${1:?usage: resume.nightly.sh path/to/lockstep}" "${2:--}" long
