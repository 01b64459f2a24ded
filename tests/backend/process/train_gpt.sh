#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train_gpt on processes: one binary for every engine, and the losses and weights of threads, byte for byte.
#   train_gpt.sh TRAIN_GPT MPI_LAUNCHER|none gloo|none SCRATCH_DIR TEXT ["RANKS PLAN"...]
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
# As root, and with more ranks than processors, under Open MPI; MPICH does not ask.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
train_gpt="$1" launcher="$2" gloo="$3" scratch="$4" text="$5"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
export PLAIT_RENDEZVOUS="$PWD/meeting"
unset PLAIT_INTERFACE GLOO_SOCKET_IFNAME TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT MASTER_PORT
shift 5
(($#)) || set -- "2 tp2" "8 dp2.tp2.pp2"
failures=0
complain() {
  printf 'train_gpt.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}

for case in "$@"; do
  read -r ranks plan <<<"$case"
  what=(--data "$text" --plan "$plan" --steps 5 --generate 8)
  "$train_gpt" "${what[@]}" --losses host.csv --save host.st >host.out || complain "host: exit code $?"
  if [[ $launcher != none ]]; then
    timeout 100 "$launcher" -n "$ranks" "$train_gpt" "${what[@]}" --backend mpi \
      --losses mpi.csv --save mpi.st >mpi.out 2>err </dev/null || complain "mpi: exit code $?: $(cat err)"
    cmp -s host.csv mpi.csv && cmp -s host.st mpi.st || complain "mpi, $plan: not the losses or weights of threads"
    # mpirun may give a terminal: what is printed at the end is compared.
    cmp -s <(tail -n 3 host.out) <(tail -n 3 mpi.out) || complain "mpi, $plan: another sample: $(tail -n 3 mpi.out)"
  fi
  if [[ $gloo != none ]]; then
    for ((rank = 0; rank < ranks; ++rank)); do
      RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE="$ranks" timeout 100 "$train_gpt" "${what[@]}" --backend gloo \
        --losses gloo.csv --save gloo.st >"gloo.$rank" 2>"err.$rank" </dev/null &
    done
    wait
    [[ ! -s gloo.1 ]] || complain "gloo, $plan: rank 1 prints: $(cat gloo.1)"
    cmp -s host.csv gloo.csv && cmp -s host.st gloo.st ||
      complain "gloo, $plan: not the losses or weights of threads: $(cat err.0)"
  fi
  rm -f ./*.csv ./*.st
done

# The plan once, and a line of each process.
if [[ $gloo != none ]]; then
  explain() {
    RANK="$1" LOCAL_RANK="$1" WORLD_SIZE=2 "$train_gpt" --explain --plan tp2 --backend gloo >out ||
      complain "--explain: exit code $?"
  }
  line="as the environment says (RANK, WORLD_SIZE, LOCAL_RANK)"
  explain 0
  grep -q "^mesh: tensor 2" out && [[ $(tail -n 1 out) == "this process: rank 0 of 2, local rank 0, $line" ]] ||
    complain "--explain on rank 0: $(cat out)"
  explain 1
  [[ $(cat out) == "this process: rank 1 of 2, local rank 1, $line" ]] || complain "--explain on rank 1: $(cat out)"
  "$train_gpt" --explain --plan tp2 --backend gloo >out || complain "--explain without a launcher: exit code $?"
  grep -q "^this process: the environment does not say which rank" out || complain "--explain without a launcher: $(cat out)"
fi
((failures == 0))
