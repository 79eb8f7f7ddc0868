#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A short tour: `./dev demo`. Runs two chains, shows what the plan does with them, and what fusing saves against running
# one operator at a time (--no-optimise); then a file larger than its limit on memory, and a program that forgets to
# give memory back. $PPTO is the command, $LEAK the program (examples/memcheck_leak.c), left out where it is not built.
set -eu
: "${PPTO:=ppto}"
: "${LEAK:=$(dirname "$PPTO")/examples/example_memcheck_leak}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

title() { printf '\n== %s\n' "$*"; }

# key NAME FILE: a number of a JSON file of ours.
key() { sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p" "$2" | head -n 1; }

mebibytes() { awk -v b="$1" 'BEGIN { printf "%.2f MiB", b / 1048576 }'; }
milliseconds() { awk -v s="$1" 'BEGIN { printf "%.2f ms", s * 1000 }'; }

# tour TEXT BINDINGS...: explains and runs it, then runs it one operator at a time.
tour() {
    "$PPTO" explain "$@"
    "$PPTO" explain "$@" --json >"$temp/explain.json"
    "$PPTO" run "$@" --stats-json "$temp/fused.json" >"$temp/result"
    "$PPTO" run "$@" --stats-json "$temp/single.json" --no-optimise >"$temp/again"
    printf '\nresult                  %s\n' "$(cat "$temp/result")"
    cmp -s "$temp/result" "$temp/again" || { echo "one operator at a time gives: $(cat "$temp/again")"; exit 1; }
    printf 'operators -> kernels    %s -> %s (one at a time: %s)\n' "$(key recorded_ops "$temp/explain.json")" \
        "$(key kernels "$temp/fused.json")" "$(key kernels "$temp/single.json")"
    printf 'peak memory             %s (one at a time: %s)\n' "$(mebibytes "$(key measured_peak_bytes "$temp/fused.json")")" \
        "$(mebibytes "$(key measured_peak_bytes "$temp/single.json")")"
    printf 'time of the run         %s (one at a time: %s)\n' "$(milliseconds "$(key run_seconds "$temp/fused.json")")" \
        "$(milliseconds "$(key run_seconds "$temp/single.json")")"
}

title "handwritten digits, nearest centroid: the result is the accuracy"
cat "$here/digits.ppto"
echo
tour "$here/digits.ppto" "x=$here/data/digits_x.npy" "y=$here/data/digits_y.npy"

title "a chain over a file of 32 MiB"
chain='mean(softmax(gelu(x * 2 - 1), axis=1) ** 2)'
echo "$chain"
"$PPTO" run 'x' 'x=f32[4096,2048]:random(7)' -o "$temp/x.npy"
tour "$chain" "x=$temp/x.npy"

title "the same chain over a file of 96 MiB within 24 MiB: by pieces, to the same bits"
"$PPTO" run 'concat([x, x + 1, x * 2])' "x=$temp/x.npy" -o "$temp/big.npy"
"$PPTO" run "$chain" "x=$temp/big.npy" >"$temp/whole"
"$PPTO" run "$chain" "x=$temp/big.npy" --memory-limit 24M --stats 2>&1 | tee "$temp/pieces"
grep -qxFf "$temp/whole" "$temp/pieces" ||
    { echo "the whole file at once gives: $(cat "$temp/whole")"; exit 1; }

if [[ -x $LEAK ]]; then
    title "who holds the memory: a program whose log keeps every result (docs/memcheck.md)"
    "$LEAK"
fi

title "what this machine offers"
"$PPTO" info
