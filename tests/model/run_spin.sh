#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_spin.sh MODEL DIR: searches every state of the model with 4 workers, with domains, with batches and with a file, then of the model with the count of begun
# waits left out, and with a caller that helps no other domain: there a hang must be found, a check that the model can
# fail. 77 where there is no spin.
set -eu
command -v spin >/dev/null || { echo "spin is absent"; exit 77; }
mkdir -p "$2"
cd "$2"

search() { # options of spin
    spin "$@" -a "$model"
    ${CC:-cc} -O2 -DSAFETY -o pan pan.c
    ./pan -m100000 | tee pan.log | grep -E "^pan:|errors:|states, stored" || true
}

model=$1
for with in DOMAINS BATCH ASKED; do
    search -DWORKERS=4 -D$with
    grep -q "errors: 0" pan.log
    ! grep -q "search depth too small" pan.log
done
for broken in FORGET SELFISH "FORGET -DASKED"; do
    # shellcheck disable=SC2086
    search -DWORKERS=3 -D$broken
    grep -q "invalid end state" pan.log
done
