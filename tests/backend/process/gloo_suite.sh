#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The suite for communicators over Gloo.
#   gloo_suite.sh SUITE SCRATCH_DIR
set -uo pipefail
export LC_ALL=C
suite="$1" scratch="$2"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
export PLAIT_RENDEZVOUS="$PWD/meeting"
unset PLAIT_INTERFACE GLOO_SOCKET_IFNAME TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT MASTER_PORT
failures=0

# job RANKS ARGUMENTS...: each rank ends well.
job() {
  local rank ranks="$1" processes=()
  shift
  for ((rank = 0; rank < ranks; ++rank)); do
    RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE="$ranks" timeout 60 "$suite" "$@" >"$rank.out" 2>"$rank.err" &
    processes+=($!)
  done
  for ((rank = 0; rank < ranks; ++rank)); do
    wait "${processes[rank]}" && continue
    printf 'gloo_suite.sh: %s: rank %d: %s\n' "$*" "$rank" "$(head -n 5 "$rank.err")" >&2
    failures=$((failures + 1))
  done
}

job 2 gloo 2 library
job 3 gloo 3 ranked
for ((mistake = 0; mistake < 17; ++mistake)); do job 2 gloo 2 ranked "$mistake"; done
((failures == 0))
