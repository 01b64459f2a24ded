#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The suite for communicators over Gloo, and plans of three dimensions.
#   gloo_suite.sh SUITE TRAINED SCRATCH_DIR
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
suite="$1" trained="$2" scratch="$3"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
export PLAIT_RENDEZVOUS="$PWD/meeting"
unset PLAIT_INTERFACE GLOO_SOCKET_IFNAME TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT MASTER_PORT
failures=0

# job RANKS COMMAND...: each rank ends well.
job() {
  local rank ranks="$1" processes=()
  shift
  for ((rank = 0; rank < ranks; ++rank)); do
    RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE="$ranks" timeout 60 "$@" >"$rank.out" 2>"$rank.err" &
    processes+=($!)
  done
  for ((rank = 0; rank < ranks; ++rank)); do
    wait "${processes[rank]}" && continue
    printf 'gloo_suite.sh: %s: rank %d: %s\n' "$*" "$rank" "$(head -n 5 "$rank.err")" >&2
    failures=$((failures + 1))
  done
}

job 2 "$suite" gloo 2 library
job 2 "$suite" gloo 2 ranked
job 3 "$suite" gloo 3 ranked
for ((mistake = 0; mistake < 17; ++mistake)); do job 2 "$suite" gloo 2 ranked "$mistake"; done

# Sums in the order of the ranks have the bits of threads; others are near.
for case in "3 zero3" "8 dp2.tp2.pp2"; do
  read -r ranks plan <<<"$case"
  "$trained" threads "$plan" ranked >threads
  for how in ranked library; do
    job "$ranks" "$trained" gloo "$plan" "$how"
    if [[ $how == ranked ]]; then
      cmp -s threads 0.out
    else
      paste -d' ' threads 0.out | awk '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || !(d <= 1e-10)) exit 1 }'
    fi && continue
    printf 'gloo_suite.sh: %s %s: not the numbers of threads: %s\n' "$plan" "$how" "$(diff threads 0.out)" >&2
    failures=$((failures + 1))
  done
done
((failures == 0))
