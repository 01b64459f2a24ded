#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packed documents of a mixture, Muon on whole parameters and states in bfloat16 have the same losses and the same trace
# on threads, on the simulated device and on processes over Gloo.
#   models.sh MODELS COMPARE_TRACES SCRATCH_DIR
set -euo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
models="$(realpath "$1")" compare="$(realpath "$2")" scratch="$3"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"
export PLAIT_RENDEZVOUS="$PWD/rendezvous"
failures=0

complain() {
  printf 'models.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}

for plan in documents matrices; do
  "$models" threads "$plan" "threads.$plan" >threads
  [[ $(wc -l <threads) == 4 ]] || complain "$plan: not the losses of 4 steps: $(cat threads)"
  "$models" simulated "$plan" "simulated.$plan" >simulated
  RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 "$models" gloo "$plan" "gloo.$plan" >other </dev/null &
  RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 "$models" gloo "$plan" "gloo.$plan" >gloo || complain "$plan: rank 0: exit code $?"
  wait $! || complain "$plan: rank 1: exit code $?"
  for backend in simulated gloo; do
    cmp -s threads "$backend" || complain "$plan: $backend has other losses: $(diff threads "$backend")"
    "$compare" "threads.$plan" "$backend.$plan" >compared || complain "$plan: $backend: $(cat compared)"
  done
done
((failures == 0))
