#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes over Gloo that a launcher starts on one machine without an address to meet at: they meet in the temporary
# folder, separated from other jobs, and leave no files there. If this is not certain, they print an error.
#   launchers.sh TRAINED SCRATCH_DIR stand_in [MPIRUN...]   a shell that sets torchrun's variables; mpirun
#   launchers.sh TRAINED SCRATCH_DIR torchrun PYTHON        torchrun itself
set -euo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
# Settings for root, and for more ranks than processors, under Open MPI.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
trained="$(realpath "$1")" scratch="$2" mode="$3"
shift 3
rm -rf "$scratch"
mkdir -p "$scratch/temporary"
cd "$scratch"
while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(SLURM|PMI|OMPI_COMM|PMIX|PLAIT|TORCHELASTIC)_')
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_PORT GLOO_SOCKET_IFNAME
export PLAIT_FLIGHT_RECORD=off  # their folder stays
folder="$PWD/temporary"
failures=0
what="nothing yet"
nowhere="gloo: the ranks do not know where to meet; set PLAIT_RENDEZVOUS, or .rendezvous, to the path of a new folder"

complain() {
  printf 'launchers.sh: %s: %s\n' "$what" "$*" >&2
  failures=$((failures + 1))
}
nothing_left() { [[ -z $(ls -A "$folder") ]] || complain "in the temporary folder is left: $(ls -A "$folder")"; }
same() { cmp -s losses "$1" || complain "not the losses of threads: $(diff losses "$1")"; }
# until WORDS...: the command succeeds.
until_true() {
  local tries
  for ((tries = 0; tries < 6000; ++tries)); do
    ! "$@" || return 0
    sleep 0.01
  done
  complain "'$*' has not come true"
}
says() { grep -qF -e "$2" "$1" || complain "'$2' is not said: $(cat "$1")"; }

"$trained" threads dp2 steps=3 >losses
# A separate script starts each rank.
printf '#!/bin/sh\n"$@"\nexit $?\n' >wrapper
chmod +x wrapper

if [[ $mode == torchrun ]]; then
  what="torchrun"
  # -r 1 -t 1: redirected and shown; without, torchrun 1.13 ends with an error in Python 3.11.
  TMPDIR="$folder" timeout 100 "$1" -m torch.distributed.run --standalone -r 1 -t 1 --nproc_per_node 2 \
    --no_python ./wrapper "$trained" ranked dp steps=3 >out 2>err </dev/null || complain "exit code $?: $(cat err)"
  sed -n 's/^\[default0\]://p' out >0.out
  same 0.out
  if compgen -G "$folder/plait-*" >many; then complain "left: $(cat many)"; fi
  exit "$((failures > 0))"
fi

# rank NAME RANK SIZE WORDS...: a process as torchrun starts one; its output is in NAME.out and NAME.err.
rank() {
  local name="$1" number="$2" size="$3"
  shift 3
  RANK="$number" WORLD_SIZE="$size" LOCAL_RANK="$number" LOCAL_WORLD_SIZE="${local_size:-$size}" GROUP_RANK=0 \
    MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_RUN_ID="${run_id:-none}" \
    TMPDIR="$folder" "$@" >"$name.out" 2>"$name.err" </dev/null &
}
# job NAME PLAN WORDS...: two ranks under their own launcher; WORDS precede the program.
job() {
  local name="$1" plan="$2"
  shift 2
  for number in 1 0; do rank "$name.$number" "$number" 2 "$@" "$trained" ranked "$plan" steps=3; done
  wait
  [[ ! -s $name.0.err && ! -s $name.1.err ]] || complain "$(cat "$name.0.err" "$name.1.err")"
  same "$name.0.out"
}

what="one job"
job one dp2
nothing_left
what="a script between launcher and program"
job script dp ./wrapper
nothing_left
what="jobs of several launchers at once, which call them alike"
(job first dp2; exit "$failures") &
(job second dp2 ./wrapper; exit "$failures") &
(job third dp; exit "$failures") &
for ((i = 0; i < 3; ++i)); do wait -n || failures=$((failures + 1)); done
nothing_left
for launcher in "$@"; do
  what="$launcher"
  for between in env ./wrapper; do
    TMPDIR="$folder" timeout 60 "$launcher" -n 2 "$between" "$trained" ranked dp steps=3 >out 2>err </dev/null ||
      complain "exit code $?: $(cat err)"
    same out
    if compgen -G "$folder/plait-*" >many; then complain "left: $(cat many)"; fi
  done
done

what="ranks that the program says"
PLAIT_RENDEZVOUS="$folder/rendezvous" rank 1 0 2 "$trained" ranked dp2 steps=3 rank=1
PLAIT_RENDEZVOUS="$folder/rendezvous" rank 0 1 2 "$trained" ranked dp2 steps=3 rank=0
wait
[[ ! -s 0.err && ! -s 1.err ]] || complain "$(cat 0.err 1.err)"
same 0.out
rank 0 0 2 "$trained" ranked dp2 rank=2
wait
says 0.err "processes: .ranks has the rank 2 of 2 processes; the rank must be at least 0 and below the number of processes"
rank 0 0 2 "$trained" ranked dp2 rank=0
wait
says 0.err "$nowhere"
nothing_left

what="rank 0 is killed while the ranks meet"
rank 0 0 3 "$trained" ranked dp3
first=$!
rank 1 1 3 "$trained" ranked dp3
second=$!
until_true compgen -G "$folder/plait-gloo-*/*.here.1" >many
[[ $(stat -c %a "$folder"/plait-gloo-*) == 700 ]] || complain "others may enter: $(ls -la "$folder")"
kill -KILL "$first"
wait "$first" 2>many || true
if wait "$second"; then complain "rank 1 ends well"; fi
says 1.err "rank 1: rank 0, process $first on host"
nothing_left

what="three processes for stages of two"
for number in 0 1 2; do rank "$number" "$number" 3 "$trained" ranked dp.pp2; done
wait
for number in 0 1 2; do says "$number.err" "launch: 3 processes are not a multiple of the 2 ranks of stage 2; start 2 or 4"; done
nothing_left

# place WORDS...: checks the error of a process without an address.
place() { env TMPDIR="$folder" "$@" "$trained" ranked dp2 timeout=500 >out 2>err </dev/null && complain "no error" || true; }
what="several machines"
place RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 TORCHELASTIC_RUN_ID=x
says err "$nowhere"
says err "this is rank 0 of 4, local rank 0 of 2 on node 0, as torchrun says (RANK, WORLD_SIZE, "
what="variables that a hand has set"
place RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2
says err "$nowhere"
what="a batch script of Slurm"
place SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=64
says err "this process was not started by srun: SLURM_JOB_ID='7' without SLURM_STEP_ID belong to a batch script"
nothing_left

if ((failures > 0)); then
  echo "launchers.sh: $failures failures" >&2
  exit 1
fi
echo "met where they should"
