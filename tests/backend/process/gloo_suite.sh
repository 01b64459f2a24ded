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
export PLAIT_RENDEZVOUS="$PWD/rendezvous"
unset PLAIT_INTERFACE GLOO_SOCKET_IFNAME TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT MASTER_PORT
failures=0 processes=()

# job RANKS COMMAND...: each rank ends well.
job() {
  local rank ranks="$1" processes=()
  shift
  for ((rank = 0; rank < ranks; ++rank)); do
    RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE="$ranks" timeout 250 "$@" >"$rank.out" 2>"$rank.err" &
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

# Groups of equal members compare their calls with each other's.
for rank in 0 1; do
  RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE=2 timeout 250 "$trained" gloo dp2 ranked evaluate >"$rank.out" 2>"$rank.err" &
done
wait
for rank in 0 1; do
  grep -q "^trained: rank 0 called .* for trainer 1 over data.*, but rank 1 called all_reduce of" "$rank.err" && continue
  printf 'gloo_suite.sh: one trains, one evaluates: rank %d: %s\n' "$rank" "$(head -n 5 "$rank.err")" >&2
  failures=$((failures + 1))
done

# Posted messages are sent during computations.
job 2 "$trained" gloo pp2.asleep ranked

# Sums in the order of the ranks have the bits of threads; others are near.
for case in "3 zero3" "2 dp2.delayed" "2 dp2.local" "2 pp2.interleaved" "8 dp2.tp2.pp2"; do
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
# In turn, with the same numbers.
job 3 "$trained" gloo zero3 ranked in_turn=1
"$trained" threads zero3 ranked >threads
cmp -s threads 0.out || {
  printf 'gloo_suite.sh: in turn: not the numbers of threads: %s\n' "$(diff threads 0.out)" >&2
  failures=$((failures + 1))
}
# The error of rank 1 in a call of its second thread, or during one: its exit code, and the text of
# rank 0.
for case in "kill_inside|137|the connection to rank 1 on host .* is lost" "leave_inside|3|the connection to rank 1 on host .* is lost" \
  "throw_inside|1|the connection to rank 1 on host .* is lost" "throw_beside|1|the connection to rank 1 on host .* is lost" \
  "stop_inside|1|all_reduce of 8 bytes on group .0,1. .data. has waited 1000 ms for rank 1 on host"; do
  IFS='|' read -r fault expected words <<<"$case"
  for rank in 0 1; do
    RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE=2 timeout 100 "$trained" gloo dp2 ranked "$fault" \
      timeout="$([[ $fault == stop_inside ]] && echo 1000 || echo 200000)" >"$rank.out" 2>"$rank.err" &
    processes[rank]=$!
  done
  codes=(0 0)
  wait "${processes[0]}" 2>/dev/null || codes[0]=$?
  [[ $fault != stop_inside ]] || pkill -CONT -P "${processes[1]}"
  wait "${processes[1]}" 2>/dev/null || codes[1]=$?
  [[ ${codes[*]} == "1 $expected" ]] && grep -qE "^trained: rank 0 on host .*: .*$words" 0.err &&
    { [[ $fault != throw* ]] || grep -q "^trained: this .* has had enough" 1.err; } && continue
  printf 'gloo_suite.sh: %s: exit codes %s: %s\n' "$fault" "${codes[*]}" "$(cat 0.err 1.err)" >&2
  failures=$((failures + 1))
done
# Each rank prints an error that all ranks detect.
for case in "import 'second.bias': hash" "measure in the measures: '.*<1>' on rank 0, '.*<2>' on rank 1"; do
  for rank in 0 1; do
    RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE=2 timeout 60 "$trained" gloo dp2 ranked "${case%% *}" \
      >"$rank.out" 2>"$rank.err" &
  done
  wait
  for rank in 0 1; do
    grep -q "^trained: .*the ranks differ .*${case#* }" "$rank.err" && continue
    printf 'gloo_suite.sh: %s: rank %d: %s\n' "$case" "$rank" "$(cat "$rank.err")" >&2
    failures=$((failures + 1))
  done
done
((failures == 0))
