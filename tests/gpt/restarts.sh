#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A fixed job that is started again after each failure, by torchrun where there is one, else by a loop around
# the launcher, ends with the weights of the undisturbed run.
#   restarts.sh TRAIN_GPT TEXT LAUNCHER SCRATCH_DIR
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1 PLAIT_FLIGHT_RECORD=off
train_gpt="$1" text="$2" launch="$3" scratch="$4"
rm -rf "$scratch"
mkdir -p "$scratch/tmp"
cd "$scratch" || exit 1
export TMPDIR="$scratch/tmp"
complain() {
  printf 'restarts.sh: %s\n' "$*" >&2
  tail -n 5 log >&2
  exit 1
}
command="$train_gpt --data $text --generate 0 --backend gloo --plan dp2 --steps 120"
"$launch" -n 2 $command --save undisturbed >log 2>&1 || complain "the undisturbed run: exit code $?"

again="$command --checkpoint run --every 10 --resume --save restarted"
if torchrun="$(command -v torchrun)"; then
  "$torchrun" --nproc-per-node 2 --max-restarts 3 --monitor-interval 0.2 --no-python $again >log 2>&1 &
else
  { for ((start = 0; start < 4; ++start)); do "$launch" -n 2 $again && break; done; } >log 2>&1 &
fi
job=$!
for step in 20 60; do
  until [[ -e $(printf 'run/step-%08d' "$step") ]]; do
    kill -0 "$job" 2>/dev/null || complain "it ended before step $step"
    sleep 0.02
  done
  victim="$(pgrep -n -f -- "^$train_gpt .*--save restarted")" && kill -9 "$victim"
done
wait "$job" || complain "exit code $?"
cmp undisturbed restarted || complain "other weights"
echo "after two failures the weights of the undisturbed run${torchrun:+, under torchrun}"
