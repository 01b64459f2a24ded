#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that are processes of an MPI job calculate the numbers of threads, and print an error text if a rank fails.
#   mpi.sh openmpi|mpich LAUNCHER TRAINED SUITE SCRATCH_DIR
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
library="$1" launcher="$2" trained="$3" suite="$4" scratch="$5"
rm -rf "$scratch"
mkdir -p "$scratch"
source "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/launched.sh"
cd "$scratch" || exit 1
# Settings for root, and for more ranks than processors.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
options=()
[[ $library != openmpi ]] || options=(--oversubscribe)
failures=0

complain() {
  printf 'mpi.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}
# job RANKS COMMAND...: its output is in out and err; the exit code is the job's.
job() {
  local ranks="$1"
  shift
  launched 250 "$launcher" "${options[@]}" -n "$ranks" "$@"
}
# says TIMES WORDS: checks the last job's err. TIMES is a pattern.
says() {
  # shellcheck disable=SC2053
  [[ $(grep -cE -e "$2" err) == $1 ]] || complain "'$2' is not said $1 times: $(cat err)"
}
# two WORDS FIRST... : SECOND...: starts two ranks differently, and checks the text of both.
two() {
  local words="$1"
  shift
  launched 250 "$launcher" "${options[@]}" -n 1 "$trained" mpi ${1%%|*} : -n 1 "$trained" mpi ${1##*|} &&
    complain "'$1' is no error"
  says 2 "$words"
}

# Sums in the order of the ranks have the bits of threads; others are near.
values() {
  for case in "2 dp2" "2 tp2" "2 dp2.delayed" "2 dp2.local" "2 pp2.interleaved" "3 zero3" "4 dp2.pp2" "8 dp2.tp2.pp2"; do
    read -r ranks plan <<<"$case"
    "$trained" threads "$plan" ranked >threads
    job "$ranks" "$trained" mpi "$plan" ranked || complain "$plan: exit code $?: $(cat err)"
    cmp -s threads out || complain "$plan: not the numbers of threads: $(diff threads out)"
    says 1 "^allocated 0 times in 7 steps"
    job "$ranks" "$trained" mpi "$plan" library || complain "$plan, library: exit code $?: $(cat err)"
    paste -d' ' threads out | awk '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || !(d <= 1e-10)) exit 1 }' ||
      [[ $plan == dp2.pp2 ]] || # in bfloat16
      complain "$plan, library: not near the numbers of threads: $(diff threads out)"
  done
  "$trained" threads dp2 ranked >threads
  job 2 "$trained" mpi dp2 ranked in_turn=1 || complain "in turn: exit code $?: $(cat err)"
  cmp -s threads out || complain "in turn there are other numbers: $(diff threads out)"
  job 2 "$trained" mpi_guest dp2 ranked || complain "a guest: exit code $?: $(cat err)"
  cmp -s threads out || complain "a guest has other numbers: $(diff threads out)"
  # The guest has called MPI_Init, after which a second thread may not call MPI.
  says 1 "^plait: processes: MPI was started with MPI_THREAD_[A-Z]*, and a second thread needs MPI_THREAD_MULTIPLE; calls over batch axes and computations run in turn"

  for case in "2 library" "2 ranked" "3 ranked" "4 ranked"; do
    read -r ranks how <<<"$case"
    job "$ranks" "$suite" mpi "$ranks" "$how" || complain "suite on $case: exit code $?: $(cat err)"
  done
  # One code compares the calls of ranks under both libraries, and Open MPI takes longer to
  # start.
  every=1
  [[ $library != openmpi ]] || every=4
  for ((mistake = 0; mistake < 17; mistake += every)); do
    job 2 "$suite" mpi 2 ranked "$mistake" || complain "mistake $mistake: exit code $?: $(cat err)"
  done
}

# Runs the errors of one rank in the fourth step.
wrong_steps() {
  job 2 "$trained" mpi dp2 ranked stop
  says 1 "^plait: rank 0 on host [^ ]*: all_reduce of 8 bytes on group .0,1. .data. has waited 5000 ms for rank 1 on host [^ ]* \(MPI\); the job ends here"
  job 2 "$trained" mpi dp2 ranked call
  says 2 "^trained: rank 0 called all_reduce of 8 bytes on group .0,1. .float64, sum. for trainer 1, but rank 1 called"
  job 2 "$trained" mpi dp2 ranked import
  says 2 "^trained: trainer 1: import_parameters: the ranks differ in the values of .second.bias.: hash .* on rank 0, hash"
  job 2 "$trained" mpi dp2 ranked measure
  says 2 "^trained: batches 2: the ranks differ in the measures: .*top<1>. on rank 0, .*top<2>. on rank 1"
  job 2 "$trained" mpi dp2 ranked evaluate
  says 2 "^trained: rank 0 called .* on group .0,1. .* for trainer 1 over data.*, but rank 1 called all_reduce of"
  job 2 "$trained" mpi dp2 ranked throw
  says 1 "^trained: this rank has had enough"
  # These errors in a call of the second thread, and during one.
  job 2 "$trained" mpi dp2 ranked stop_inside timeout=2000
  says 1 "^plait: rank 0 on host [^ ]*: all_reduce of 8 bytes on group .0,1. .data. has waited 2000 ms for rank 1 on host [^ ]* \(MPI\); the job ends here"
  job 2 "$trained" mpi dp2 ranked throw_inside
  says 1 "^trained: this call has had enough"
  job 2 "$trained" mpi dp2 ranked throw_beside timeout=200000
  says 1 "^trained: this rank has had enough"
  for fault in kill leave kill_inside; do
    begin=$SECONDS
    if job 2 "$trained" mpi dp2 ranked "$fault" timeout=200000; then complain "$fault: the job ends well"; fi
    ((SECONDS - begin < 50)) || complain "$fault: the job took $((SECONDS - begin)) s to end"
  done
}

# Ways to start it.
wrong_starts() {
  if job 3 "$trained" mpi dp2 ranked; then complain "3 processes for 2 ranks are no error"; fi
  says 3 "^trained: rank [012]: the launcher started 3 processes, but the plan has 2 ranks"
  launched 250 "$launcher" "${options[@]}" -n 1 "$trained" mpi dp2 ranked : -n 1 "$trained" mpi tp2 ranked
  says 2 "the mesh of the plan: 'data 2' on rank 0, 'tensor 2' on rank 1"
  launched 250 "$launcher" "${options[@]}" -n 1 "$trained" mpi dp2 ranked : -n 1 "$trained" mpi dp2 library
  says 2 "reduction: ranked on rank 0, library on rank 1"
  launched 250 "$launcher" "${options[@]}" -n 1 env TRAINED_TOKEN=a "$trained" mpi dp2 ranked : \
    -n 1 env TRAINED_TOKEN=b "$trained" mpi dp2 ranked
  says 2 "the token, of which rank 1 has another value than rank 0"
  if job 2 "$trained" threads dp2 ranked; then complain "threads in each of two processes are no error"; fi
  says 2 "^trained: launch: the program was started as 2 processes .*_SIZE=2., but the backend is threads; write plait::processes"
  two "the ranks differ in seed: 0 on rank 0, 1 on rank 1" "dp2 ranked|dp2 ranked seed=1"
  two "the ranks differ in .*batch.*: 24 on rank 0, 12 on rank 1" "dp2 ranked|dp2 ranked batch=12"
  for plan in dp2 tp2; do
    two "differ in the fingerprint of the data set, .*: [0-9]+ on rank 0, [0-9]+ on rank 1" "$plan ranked|$plan ranked data=1"
  done
  two "the ranks differ in precision .*: 888 on rank 0, 444 on rank 1" "dp2 ranked|dp2.float ranked"
  if job 2 "$trained" mpi_guest dp2 ranked finalize; then complain "MPI may be finalised under a running job"; fi
  # The launcher ends the others of a rank that has finalised MPI and failed, perhaps before they say it.
  says "[12]" "^trained: mpi: MPI was finalised while a job runs"
  PMI_SIZE=2 OMPI_COMM_WORLD_SIZE=2 timeout 250 "$trained" mpi dp2 ranked >out 2>err </dev/null
  says 1 "the program was built with another MPI library than this mpirun"
  job 2 env TRAINED_RANK=0 "$trained" mpi dp2 ranked && complain "two ranks 0 by .ranks are no error"
  says 1 "^trained: mpi: .ranks has the rank 0 of 2, but this process is rank 1 of 2 in MPI, whose numbers are used"
  # The rank numbers of MPI's own launcher must be the ranks of MPI, except for a guest. MPICH
  # trusts the launcher.
  if [[ $library == openmpi ]]; then
    printf '#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" != 1 ] || export OMPI_COMM_WORLD_RANK=0\nexec "$@"\n' >changed
    chmod +x changed
    if job 2 ./changed "$trained" mpi dp2 ranked; then complain "contradicting ranks are no error"; fi
    says 1 "^trained: mpi: OMPI_COMM_WORLD_RANK=0 in the environment, and MPI_COMM_WORLD has the rank 1: "
    job 2 ./changed "$trained" mpi_guest dp2 ranked || complain "a guest: exit code $?: $(cat err)"
  fi

  # Containers of one machine are one host if MPI reports that they share memory.
  if unshare --uts true 2>unshared; then
    printf '#!/bin/sh\nexec unshare --uts sh -c \x27hostname "own-$$"; exec "$@"\x27 sh "$@"\n' >contained
    chmod +x contained
    job 2 ./contained "$trained" mpi tp2 ranked || complain "in containers: exit code $?: $(cat err)"
    says 0 "tensor groups have ranks on several of the hosts"
  else
    echo "not tried, as name spaces are not permitted: $(cat unshared)"
  fi
}

# In a folder each and at one time: launchers wait for seconds before they end a job that has failed.
parts=()
for part in values wrong_steps wrong_starts; do
  mkdir "$part"
  (cd "$part" && "$part" && ((failures == 0))) &
  parts+=($!)
done
for process in "${parts[@]}"; do wait "$process" || failures=$((failures + 1)); done
((failures == 0))
