#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train_gpt continues from checkpoints of each plan under each plan, over threads and processes, and PyTorch reads and
# writes the same checkpoints.
#   checkpoints.sh TRAIN_GPT TEXT CHECKPOINT_PY SCRATCH_DIR [STEPS [PRECISION]]
# STEPS: the steps before the checkpoint, and as many after it (5). PRECISION: of all pairs (double).
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
train_gpt="$1" text="$2" oracle="$3" scratch="$4" half="${5-5}" precision="${6-double}"
all=$((2 * half))
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
failures=0

complain() {
  printf 'checkpoints.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}
# train ARGUMENTS...: must succeed.
train() {
  "$train_gpt" --data "$text" --generate 0 "$@" >out 2>err || complain "exit code $?: $*: $(cat err)"
  [[ ! -s err ]] || complain "$*: $(cat err)"
}
# near LOSSES OTHER TOLERANCE: the second half of the losses.
near() {
  awk -F, -v tolerance="$3" -v half="$half" '
    NR == FNR { if ($1 ~ /^[0-9]+$/) expected[$1] = $2; next }
    $1 ~ /^[0-9]+$/ { d = $2 - expected[$1]; if (d < 0) d = -d; if (!(d <= tolerance)) bad = 1; ++rows }
    END { exit bad || rows != half }' "$1" "$2"
}

# ---- From each plan to each plan -----------------------------------------------------------------
plans=(serial dp2 dp4 pp2 pp4 tp2 dp2.tp2.pp2)
[[ $precision == double ]] || plans[2]=pp2.interleaved
for plan in "${plans[@]}"; do
  train --precision "$precision" --microbatches 4 --plan "$plan" --steps "$all" --losses "$plan.csv" --save "$plan.end"
  train --precision "$precision" --microbatches 4 --plan "$plan" --steps "$half" --checkpoint "$plan.run" --every "$half"
done
for from in "${plans[@]}"; do
  for to in "${plans[@]}"; do
    rm -rf run
    cp -r "$from.run" run
    train --precision "$precision" --microbatches 4 --plan "$to" --steps "$all" --checkpoint run --every 1000000 --resume \
      --losses rest.csv --save rest
    tolerance=1e-10
    [[ $precision == double ]] || tolerance=1e-4
    case "${from%.interleaved} ${to%.interleaved}" in "serial pp"? | "pp"?" serial" | "pp"?" pp"?) tolerance=0 ;; esac
    [[ $from != "$to" ]] || tolerance=0
    near "$from.csv" rest.csv "$tolerance" || complain "from $from to $to: other losses: $(tail -n 1 "$from.csv" rest.csv)"
    [[ $tolerance != 0 ]] || cmp -s "$from.end" rest || complain "from $from to $to: other weights"
  done
done

# The size of a checkpoint does not depend on the plan: the parameters and twice as much.
for plan in "${plans[@]}"; do
  find "$plan.run" -name '*.safetensors' -exec sh -c '
    for file; do head=$(od -An -tu8 -N8 "$file"); echo $(($(stat -c %s "$file") - head - 8)); done' sh {} + |
    awk -v plan="$plan" '{ sum += $1 } END { print sum }' >"$plan.bytes"
  cmp -s serial.bytes "$plan.bytes" || complain "the tensors of $plan have $(cat "$plan.bytes") bytes, of serial $(cat serial.bytes)"
done

# ---- The end of an epoch, bfloat16 ---------------------------------------------------------------
# 391 sequences: the 12th step of 32 is the last of an epoch.
epoch=(--batch 32 --plan dp2 --checkpoint epoch --every 11)
train "${epoch[@]}" --steps 14 --losses whole.csv --save whole.end
[[ $(cd epoch && echo step-*) == 'step-00000011 step-00000014' ]] || complain "the last step is not saved: $(ls epoch)"
rm -r epoch/step-00000014
train "${epoch[@]}" --steps 14 --resume --losses rest.csv --save rest
grep -q "^resuming from 'epoch/step-00000011'$" out || complain "it does not say from where it goes on: $(cat out)"
half=3 near whole.csv rest.csv 0 || complain "over the end of an epoch: $(tail -n 3 whole.csv rest.csv)"
cmp -s whole.end rest || complain "over the end of an epoch: other weights"

# ---- Other settings, a signal --------------------------------------------------------------------
if "$train_gpt" --data "$text" --generate 0 --plan tp2 --checkpoint epoch --resume >out 2>err; then
  complain "another batch is no error"
fi
grep -q 'global_batch is 32 in the checkpoint and 16 now' err || complain "another batch: $(cat err)"
"$train_gpt" --data "$text" --generate 0 --steps 1000000 --checkpoint stopped --every 1000000 --log steps.csv >out 2>err &
first=$!
for ((tries = 0; tries < 3000; ++tries)); do (($(cat steps.csv 2>/dev/null | wc -l) < 4)) || break; sleep 0.02; done
"$train_gpt" --data "$text" --generate 0 --steps 1 --checkpoint stopped >out 2>second &&
  complain "two jobs on one folder are no error"
[[ $(wc -l <second) == 1 ]] && grep -q "folder of checkpoints 'stopped' is in use: another job, or another .checkpoints. object of this program, writes there" second ||
  complain "two jobs on one folder: $(cat second)"
kill -TERM "$first"
wait "$first"
[[ $? == 143 && -e $(echo stopped/step-*/plait.json) ]] || complain "SIGTERM leaves no checkpoint: $(cat err; ls stopped)"
# The run continues as without a signal.
last=$((10#$(basename stopped/step-* | cut -d- -f2) + 2))
train --steps "$last" --save undisturbed
train --steps "$last" --checkpoint stopped --resume --save rest
cmp -s undisturbed rest || complain "after a signal at step $((last - 2)): other weights"
train --steps "$last" --checkpoint stopped --resume
grep -q '^nothing is left to do$' out || complain "with nothing left to do: $(cat out)"

# Replicas save checkpoints, and end at a signal, only after a common update.
replicas=(--plan dp4.local8 --batch 4)
train "${replicas[@]}" --steps 112 --checkpoint replicas --save undisturbed --losses whole.csv
[[ $(cd replicas && echo step-*) == 'step-00000104 step-00000112' ]] || complain "checkpoints of replicas: $(ls replicas)"
rm -r replicas/step-00000112
train "${replicas[@]}" --steps 112 --checkpoint replicas --resume --save rest --losses rest.csv
cmp -s undisturbed rest || complain "replicas that are resumed: other weights"
[[ $(wc -l <whole.csv) == 15 && $(tail -n +2 rest.csv) == "$(tail -n 1 whole.csv)" ]] ||
  complain "replicas that are resumed: other losses: $(tail -n 1 whole.csv rest.csv)"
rm steps.csv
"$train_gpt" --data "$text" --generate 0 "${replicas[@]}" --steps 8000000 --checkpoint ended --every 8000 --log steps.csv >out 2>err &
for ((tries = 0; tries < 3000; ++tries)); do (($(cat steps.csv 2>/dev/null | wc -l) < 4)) || break; sleep 0.02; done
kill -TERM "$!"
wait "$!"
code=$? ended="$(basename ended/step-* | cut -d- -f2)"
[[ $code == 143 && $((10#$ended % 8)) == 0 ]] || complain "SIGTERM to replicas: exit code $code, step $ended: $(cat err)"

# A log whose disk is full ends the run with exit code 2, and the state is saved. The full disk is seen by these
# processes alone.
if unshare --mount true 2>unshared; then
  mkdir full
  for plan in serial dp2.pp2; do
    unshare --mount sh -c 'mount -t tmpfs -o size=4k none full && head -c 4096 /dev/zero >full/other && exec "$@"' sh \
      "$train_gpt" --data "$text" --generate 0 --plan "$plan" --steps 1000000 --checkpoint "of.$plan" --every 1000000 \
      --log full/log >out 2>err
    code=$?
    [[ $plan == serial ]] && who="" || who="rank 0: "
    [[ $code == 2 && $(cat err) == "train_gpt: ${who}log 'full/log' cannot be written: No space left on device; the state after step 1 is saved in 'of.$plan'" ]] ||
      complain "a full disk under $plan: exit code $code: $(cat err)"
    train --plan "$plan" --steps 4 --save "undisturbed.$plan"
    train --plan "$plan" --steps 4 --checkpoint "of.$plan" --resume --save rest
    grep -qF "resuming from 'of.$plan/step-00000002'" out || complain "after a full disk under $plan: $(cat out)"
    cmp -s "undisturbed.$plan" rest || complain "after a full disk under $plan: other weights"
  done
else
  echo "checkpoints.sh: full disks are left out, as name spaces are not permitted: $(cat unshared)"
fi

# refused WORDS ARGUMENTS...: exit code 2, and so it says.
refused() {
  local words="$1"
  shift
  "$train_gpt" --data "$text" --generate 0 "$@" >out 2>err
  [[ $? == 2 ]] || complain "no error: $*"
  grep -qF -- "$words" err || complain "$*: $(cat err)"
}
refused "has checkpoints of another run, up to step $last; continue that run" --checkpoint stopped
refused "'learning_rat', which is not a setting" --checkpoint stopped --resume --allow learning_rat
refused '--every needs --checkpoint DIR' --every 5
for file in stopped/step-*/weights-*; do printf x | dd of="$file" bs=1 seek="$(($(stat -c %s "$file") - 2))" conv=notrunc 2>/dev/null; done
refused 'but none can be used' --checkpoint stopped --resume

# ---- PyTorch -------------------------------------------------------------------------------------
train --plan dp2.tp2.pp2 --steps 4 --checkpoint torch --every 4 --save weights
python="${PYTHON:-python3}"
if "$python" "$oracle" read torch/step-00000004 weights >out 2>err; then
  "$python" "$oracle" one torch/step-00000004 joined >out 2>err || complain "joined: $(cat err)"
  train --plan tp2 --steps 0 --init joined/model-00001-of-00001.safetensors --save again
  cmp -s weights again || complain "what PyTorch has joined is another model"
  "$python" "$oracle" write weights written >out 2>err || complain "written: $(cat err)"
  train --plan pp2 --steps 0 --init written --save again
  cmp -s weights again || complain "what PyTorch has written is another model"
elif [[ $? == 77 ]]; then
  echo "PyTorch was left out, $(cat out)"
else
  complain "PyTorch cannot read a checkpoint: $(cat out err)"
fi
train --plan pp2 --steps 0 --init torch/step-00000004 --save again
cmp -s weights again || complain "the weights of a checkpoint are another model"

((failures == 0))
