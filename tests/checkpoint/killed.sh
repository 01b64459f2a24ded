#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kills train_gpt (SIGKILL) before each of the calls with which it changes the disk for its second checkpoint. The next
# run must continue from the first or the second checkpoint, which is complete, and remove all unfinished files.
#   killed.sh KILL_AT TRAIN_GPT TEXT SCRATCH_DIR [STRIDE [PLAN]]
# STRIDE: the distance between the calls that are tried (1: all calls).
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
kill_at="$1" train_gpt="$2" text="$3" scratch="$4" stride="${5-1}" plan="${6-dp2.tp2.pp2}"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
failures=0
complain() {
  printf 'killed.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}
job=("$train_gpt" --data "$text" --generate 0 --plan "$plan" --batch 8)
saves=(--checkpoint run --every 2 --keep 1)

"${job[@]}" --steps 6 --losses whole.csv --save whole >out 2>err || complain "without checkpoints: $(cat err)"
"${job[@]}" "${saves[@]}" --steps 2 >out 2>err || complain "the first checkpoint: $(cat err)"
mv run first
begin() { rm -rf run rest.csv rest && cp -r first run; }

begin
code=0
"$kill_at" 0 "${job[@]}" "${saves[@]}" --resume --steps 4 >out 2>err || code=$?
if ((code == 77)); then
  cat out
  exit 77
fi
((code == 0)) || complain "under kill_at: exit code $code: $(cat err)"
calls="$(tail -n 1 out)"
[[ $(ls run) == $'plait.lock\nstep-00000004' ]] || complain "two checkpoints leave $(ls run)"
for name in mkdir openat write fsync rename unlink rmdir; do
  grep -q " $name\(at\|at2\)\?$" kill_at.calls || complain "no call of $name is seen"
done

declare -A found=([2]=0 [4]=0)
tried=0
# The last call removes the last of the older checkpoint.
for n in $(seq 1 "$stride" "$((calls - 1))") "$calls"; do
  begin
  code=0
  "$kill_at" "$n" "${job[@]}" "${saves[@]}" --resume --steps 4 >out 2>err || code=$?
  # The order of the ranks' calls is another each time; their number, hardly.
  ((code == 137 || (code == 0 && n > calls - 5))) || complain "call $n: exit code $code: $(cat err)"
  what="call $n ($(tail -n 1 kill_at.calls)), which left $(ls run)"
  "${job[@]}" "${saves[@]}" --resume --steps 6 --losses rest.csv --save rest >out 2>err || complain "$what: $(cat err)"
  [[ ! -s err ]] || complain "$what: $(cat err)"
  from=$((7 - $(wc -l <rest.csv)))
  [[ $from == [24] ]] || complain "$what: it goes on from $from"
  cmp -s <(tail -n $((6 - from)) whole.csv) <(tail -n +2 rest.csv) || complain "$what: other losses"
  cmp -s whole rest || complain "$what: other weights"
  [[ $(ls -A run) == $'plait.lock\nstep-00000006' ]] || complain "$what: remains: $(ls -A run)"
  found[$from]=$((${found[$from]:-0} + 1))
  tried=$((tried + 1))
done
((found[2] > 0 && found[4] > 0)) || complain "it went on ${found[2]} times from the first and ${found[4]} times from the second"
echo "killed at $tried of $calls calls; went on from the first checkpoint ${found[2]} times, from the second ${found[4]} times"
((failures == 0))
