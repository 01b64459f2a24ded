#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Counts the instructions of ten training steps made by a plan on one rank and of the same steps
# written by hand, matrix products excluded from both, and prints their ratio. Fails above 1.01.
#   overhead.sh PROGRAM SCRATCH_DIR
set -euo pipefail
export LC_ALL=C
program="$1" scratch="$2"
if ! command -v valgrind >/dev/null; then
  echo "skipped: valgrind is not installed"
  exit 0
fi
mkdir -p "$scratch"

# instructions HOW: prints the count of callgrind.
instructions() {
  local out="$scratch/callgrind.$1"
  # Collecting is toggled on by entering the steps, off by entering a matrix product in them.
  valgrind --tool=callgrind --callgrind-out-file="$out" --toggle-collect=plait_measured_steps \
    --toggle-collect='*plait::host_maths::matmul<*' --zero-before=plait_measured_steps \
    "$program" "$1" >"$scratch/losses.$1" 2>"$scratch/log.$1" ||
    { cat "$scratch/log.$1" >&2; exit 1; }
  awk '/^(summary|totals):/ { total = $2 } END { print total + 0 }' "$out"
}

planned="$(instructions planned)"
by_hand="$(instructions by_hand)"
cmp "$scratch/losses.planned" "$scratch/losses.by_hand" ||
  { echo "the losses of the two differ: they do not do the same work" >&2; exit 1; }
awk -v planned="$planned" -v by_hand="$by_hand" 'BEGIN {
  if (by_hand < 10000) { print "callgrind counted only " by_hand " instructions"; exit 1 }
  ratio = planned / by_hand
  printf "instructions of ten steps without matrix products: %d planned, %d by hand, ratio %.4f\n",
         planned, by_hand, ratio
  exit ratio > 1.01
}'
