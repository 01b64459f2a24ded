#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train_gpt --recompute: the weights of a run without it, to the bit, in less memory, and from its checkpoints.
#   recompute.sh TRAIN_GPT TEXT SCRATCH_DIR
set -uo pipefail
export LC_ALL=C
train_gpt="$1" text="$2" scratch="$3"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
failures=0

complain() {
  printf 'recompute.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}
run() {
  "$train_gpt" </dev/null --data "$text" --generate 0 --batch 8 --microbatches 2 "$@" >out 2>err ||
    complain "exit code $?: $*: $(cat err)"
}
same() { cmp -s "$1" "$2" || complain "other bits: $2"; }

for plan in serial dp2.tp2.pp2; do
  run --plan "$plan" --steps 6 --save "$plan"
  for what in cheap all; do
    run --plan "$plan" --steps 6 --save "$plan.$what" --recompute "$what"
    same "$plan" "$plan.$what"
  done
done

# A run that was saved without recompute continues with it.
run --plan serial --steps 4 --checkpoint folder --every 4
run --plan serial --steps 6 --checkpoint folder --resume --save resumed --recompute all
same serial resumed

# Bytes of activations, of a rank of the first stage.
activations() {
  "$train_gpt" --batch 64 --microbatches 4 --plan dp2.tp2.pp2 --explain "$@" >out
  awk '/^memory of a rank/ { getline; for (i = 1; i <= NF; ++i) if ($i == "activations") column = i; getline; print; exit }' out
}
usual="$(activations)"
[[ "$usual" != "$(activations --recompute all)" ]] || complain "--recompute all needs as much memory"
grep -q '^made again before the backward$' out || complain "--explain says nothing of what is made again"

refused() {
  local text="$1"
  shift
  "$train_gpt" "$@" >out 2>err && complain "no error: $*"
  grep -qF -- "$text" err || complain "'$text' is not said of $*: $(cat err)"
}
refused "--recompute is cheap or all, got 'some'" --recompute some
refused "is not built for size 'tiny' in precision 'double' on backend 'host' with --recompute all" \
  --precision double --recompute all
refused '-D PLAIT_GPT_RECOMPUTE_MODELS=tiny.double -D PLAIT_GPT_RECOMPUTE_PLANS_tiny.double=serial' \
  --precision double --recompute all
refused '--recompute together with --reproducible' --recompute all --reproducible 12
((failures == 0))
