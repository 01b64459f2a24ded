#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train_gpt --reproducible: the same weights, to the bit, from any number of data ranks, stages and processes, and from a
# checkpoint that continues under others.
#   reproducible.sh TRAIN_GPT TEXT LAUNCH SCRATCH_DIR [STEPS]
# LAUNCH: scripts/launch. STEPS: the steps of each run (5).
set -uo pipefail
export LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
train_gpt="$1" text="$2" launch="$3" scratch="$4" steps="${5-5}"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
failures=0

complain() {
  printf 'reproducible.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}
# weights NAME PLAN ARGUMENTS...: what a run ends with, in file NAME. $command begins the run.
command=("$train_gpt")
weights() {
  local name="$1" plan="$2"
  shift 2
  "${command[@]}" </dev/null --data "$text" --generate 0 --batch 48 --steps "$steps" --plan "$plan" --save "$name" "$@" >out 2>err ||
    complain "exit code $?: $plan $*: $(cat err)"
}
# same NAME PLAN ARGUMENTS...: the losses equal the losses in file NAME.
same() {
  local expected="$1"
  shift
  weights other "$@" --reproducible 12
  cmp -s "$expected" other || complain "other bits: ${command[*]##*/} $*"
}

# ---- Threads -------------------------------------------------------------------------------------
weights serial serial --reproducible 12
for plan in dp2 dp3 dp4 dp5 dp12 pp2 dp3.pp2 gpipe2 dp2.gpipe2 zero dp5.zero; do same serial "$plan"; done
weights tp2 tp2 --reproducible 12
for plan in dp2.tp2 dp3.tp2; do same tp2 "$plan"; done
same serial dp3 --backend simulated
# Sums that each rank makes for itself have other bits.
weights plain dp2 --microbatches 6
cmp -s serial plain && complain "without --reproducible the bits are the same, too"

# ---- Processes -----------------------------------------------------------------------------------
if "$train_gpt" --list-plans --backend gloo >out 2>err; then
  command=("$launch" -n 3 "$train_gpt")
  same serial dp3 --backend gloo
  command=("$launch" -n 4 "$train_gpt")
  same serial dp2.pp2 --backend gloo
fi
if "$train_gpt" --list-plans --backend mpi >out 2>err && command -v mpirun >/dev/null; then
  command=(mpirun --oversubscribe -n 5 "$train_gpt")
  same serial dp5 --backend mpi
fi
command=("$train_gpt")

# ---- From checkpoints ----------------------------------------------------------------------------
# 391 sequences: the 8th step of 48 is the last of an epoch.
steps=7 weights early dp2 --reproducible 12 --checkpoint run --every 7
steps=11 weights whole serial --reproducible 12
for plan in dp5 pp2 zero; do
  rm -rf again
  cp -r run again
  steps=11 same whole "$plan" --checkpoint again --resume --every 1000
done
"$train_gpt" --data "$text" --generate 0 --batch 48 --plan dp2 --checkpoint run --resume >out 2>err &&
  complain "going on without --reproducible is no error"
grep -q 'reproducible is' err || complain "going on without --reproducible: $(cat err)"

# ---- Wrong input ---------------------------------------------------------------------------------
# refused WORDS ARGUMENTS...
refused() {
  local words="$1"
  shift
  "$train_gpt" --data "$text" "$@" >out 2>err
  [[ $? == 2 ]] || complain "no error: $*"
  grep -qF -- "$words" err || complain "$*: $(cat err)"
}
refused 'plan '\''dp2'\'' with --reproducible 7 is not built' --plan dp2 --reproducible 7
refused '-D PLAIT_GPT_REPRODUCIBLE_PLANS_tiny.float=dpN -D PLAIT_GPT_SLICES=7 (' --plan dp2 --reproducible 7
refused '--batch 16 cannot be divided equally into the 12 pieces of --reproducible' --plan dp2 --reproducible 12
refused 'has 13 data ranks for the 12 pieces' --plan dp13 --reproducible 12 --batch 48
refused "unknown plan 'dpx'" --plan dpx --reproducible 12
refused 'cannot be used with --reproducible' --plan dp2 --reproducible 12 --microbatches 2

((failures == 0))
