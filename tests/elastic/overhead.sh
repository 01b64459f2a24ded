#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the steps of an elastic job of two ranks without any events with the steps of a fixed job, over pairs of runs
# that take turns. Arguments: elastic_job, the launcher, a scratch folder, pairs, steps, samples of a step.
set -eu
job="$1" launch="$2" folder="$3" pairs="${4:-200}" steps="${5:-1000}" batch="${6:-24}"
export OPENBLAS_NUM_THREADS=1
mkdir -p "$folder"
seconds() { sed -n 's/.*seconds: //p'; }
for ((pair = 0; pair < pairs; ++pair)); do
  rm -rf "$folder"/a "$folder"/b
  run_fixed() { "$launch" -n 2 "$job" dp "$steps" "$folder/a" measured=1 batch="$batch" fixed=1 2>&1 | seconds; }
  run_elastic() { "$launch" --elastic 2:2 "$job" dp "$steps" "$folder/b" measured=1 batch="$batch" 2>&1 | seconds; }
  if ((pair % 2)); then a=$(run_fixed) b=$(run_elastic); else b=$(run_elastic) a=$(run_fixed); fi
  echo "$a $b"
done | awk '{ print $2 / $1 }' | sort -n |
  awk '{ r[NR] = $1 } END { printf "%d pairs, ratio %.4f (quartiles %.4f, %.4f)\n", NR, r[int((NR + 1) / 2)], r[int((NR + 3) / 4)], r[int((3 * NR + 3) / 4)] }'
