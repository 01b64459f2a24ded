#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Flight records of jobs whose rank 1 is killed, is stopped or fails, under each engine: scripts/flight names the rank,
# its host, the axis and the operation, and the ranks that wait for it. A job that ends without an error leaves no record.
#   flight.sh FLIGHT SCRATCH_DIR [openmpi LAUNCHER TRAINED] [mpich LAUNCHER TRAINED] [gloo - TRAINED]
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
flight="$(realpath "$1")" scratch="$2"
here="$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
fuzz="$here/flight_fuzz.py"
source "$here/launched.sh"
shift 2
rm -rf "$scratch"
mkdir -p -m 700 "$scratch"
cd "$scratch" || exit 1
export PLAIT_RENDEZVOUS="$PWD/rendezvous" PLAIT_FLIGHT_RECORD="$PWD/records"
unset PLAIT_INTERFACE GLOO_SOCKET_IFNAME TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT MASTER_PORT
failures=0 what=nothing processes=()
complain() {
  printf 'flight.sh: %s: %s\n' "$what" "$*" >&2
  failures=$((failures + 1))
}
end_all() { for id in "${processes[@]}"; do kill -KILL "$id" 2>/dev/null; done; }
trap end_all EXIT

# mpi LIBRARY LAUNCHER TRAINED [FAULT]: 4 ranks. MPI may need longer to start than ranks wait for each other.
mpi() {
  local tries options=()
  [[ $1 != openmpi ]] || options=(--oversubscribe)
  for ((tries = 0; tries < 3; ++tries)); do
    rm -rf records
    begun=$SECONDS
    launched_once 100 "$2" "${options[@]}" -n 4 "$3" mpi dp2.pp2 ranked ${4:+"$4"} timeout=1500
    code=$?
    ((code != 125)) && ! grep -qE 'MPI_(Init_thread|Comm_[a-z]*) has not ended' err && return 0
  done
  complain "MPI does not start, or its launcher does not end: $(cat err)"
}
# gloo TRAINED OPTION...: 4 ranks.
gloo() {
  local rank trained="$1"
  shift
  rm -rf records rendezvous 0.out
  processes=()
  for rank in 3 2 1 0; do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=4 "$trained" ranked dp2.pp2 timeout=1000 start=60000 "$@" >$rank.out 2>$rank.err </dev/null &
    processes[rank]=$!
  done
}
# until_steps COUNT: waits until rank 0 has made COUNT steps.
until_steps() {
  local tries
  for ((tries = 0; tries < 6000; ++tries)); do
    [[ $(cat 0.out 2>/dev/null | wc -l) -lt $1 ]] || return 0
    sleep 0.01
  done
  complain "there are no $1 steps: $(cat ./*.err)"
}
# says CODE WORDS...: checks the exit code and the output of scripts/flight.
says() {
  local words got=0 expected="$1"
  shift
  "$flight" records >said 2>&1 || got=$?
  [[ $got == "$expected" ]] || complain "exit code $got instead of $expected: $(cat said)"
  for words in "$@"; do grep -qE -e "$words" said || complain "not said: '$words' in: $(cat said)"; done
}
# ended PROGRAM: checks that the job has ended in time and has left no process and no shared memory.
# If processes were killed, the launcher of Open MPI removes their segments when it ends.
shm_before="$(ls /dev/shm)"
ended() {
  ((SECONDS - begun <= 20)) || complain "it took $((SECONDS - begun)) s to end"
  local tries left=""
  for ((tries = 0; tries < 600; ++tries)); do
    left="$(pgrep -af "^$1 " ; comm -13 <(echo "$shm_before") <(ls /dev/shm))"
    [[ -n $left ]] || return 0
    sleep 0.1
  done
  complain "left behind: $left"
}
nothing_left() { [[ -d records && -z $(ls -A records) ]] || complain "records: $(ls -AR records)"; }

host="$(uname -n)"
one="^ *rank 1 \(process [0-9]+ on host $host\)"
# The places at which a signal from outside may find a rank, which has been in operations of both
# threads.
anywhere="(in|outside of communication, after) .*operation [0-9]+( of its second thread)?, .* on group"
# In the fourth step rank 1 does it between two operations: rank 0 has its data axis, rank 3 its stage axis.
places=("after operation [0-9]+ of its second thread, all_reduce of [0-9]+ bytes on group \{0,1,2,3\} \(data x stage\)")
waits=("rank 0 on host $host waited for rank 1 for [0-9.]+ s in all_reduce of 8 bytes on group \{0,1\} \(data\)"
  "rank 3 on host $host waited for rank 1 for [0-9.]+ s in receive of 576 bytes from rank 1 on group \{1,3\} \(stage\)")

while (($# > 0)); do
  library="$1" launcher="$2" trained="$3"
  shift 3
  what="$library, no fault"
  if [[ $library != gloo ]]; then
    mpi "$library" "$launcher" "$trained"
    [[ $code == 0 ]] || complain "exit code $code: $(cat err)"
    nothing_left
    what="$library, killed"
    mpi "$library" "$launcher" "$trained" kill
    [[ $code != 0 ]] || complain "it ends well"
    ended "$trained"
    says 1 "$one was killed or has ended without a word, outside of communication, ${places[0]}"
    # MPICH ends all ranks at once. The first one is then unknown, and a list gives the ranks that waited.
    grep -q "cannot be told which was the first" said || says 1 "${waits[@]}"
    what="$library, stopped"
    mpi "$library" "$launcher" "$trained" stop
    [[ $code != 0 ]] || complain "it ends well"
    ended "$trained"
    # Open MPI resumes the stopped rank at the end, and ranks whose time was not over continue for a
    # moment.
    says 1 "$one (was stopped for [1-9][0-9]*[.]|was killed or has ended)" "${waits[@]}"
    [[ $(head -n 2 said) == *"rank 1 (process"* ]] || complain "not the first: $(cat said)"
    what="$library, stopped in a call of the second thread"
    mpi "$library" "$launcher" "$trained" stop_inside
    [[ $code != 0 ]] || complain "it ends well"
    ended "$trained"
    says 1 "$one (was stopped for [1-9]|was killed or has ended).* in operation [0-9]+ of its second thread, all_reduce of 8 bytes on group .0,1. .data. for trainer 1" \
      "rank 0 on host $host waited for rank 1 for [0-9.]+ s in all_reduce of 8 bytes on group .0,1. .data."
    what="$library, failed"
    mpi "$library" "$launcher" "$trained" throw
    [[ $code != 0 ]] || complain "it ends well"
    ended "$trained"
    says 1 "$one has failed: this rank has had enough, outside of communication, ${places[0]}" "${waits[@]}"
    continue
  fi
  gloo "$trained" steps=5
  wait
  nothing_left
  what="gloo, killed"
  gloo "$trained" steps=100000
  until_steps 5
  says 0 "nothing is wrong with 4 of 4 ranks: running"
  begun=$SECONDS
  kill -KILL "${processes[1]}"
  wait 2>/dev/null
  ended "$trained"
  says 1 "$one was killed or has ended without a word, $anywhere"
  what="gloo, stopped"
  gloo "$trained" steps=100000
  until_steps 5
  begun=$SECONDS
  kill -STOP "${processes[1]}"
  for rank in 0 2 3; do wait "${processes[rank]}" 2>/dev/null && complain "rank $rank ends well"; done
  says 1 "$one is stopped, for [1-9][0-9]*[.][0-9]+ s, $anywhere" \
    "^ranks? .* on host $host waited for rank 1 for [0-9]+[.][0-9]+ s in .* on group"
  kill -CONT "${processes[1]}"
  wait 2>/dev/null
  ended "$trained"
  says 1 "$one was stopped for [1-9][0-9]*[.]" "waited for rank 1 for [1-9][0-9]*[.][0-9]+ s in .* on group"
  what="gloo, failed"
  begun=$SECONDS
  gloo "$trained" steps=100000 throw=5
  wait 2>/dev/null
  ended "$trained"
  says 1 "$one has failed: this rank has had enough, outside of communication, after operation" "waited for rank 1"
  what="no record"
  PLAIT_FLIGHT_RECORD="$PWD/nowhere" "$flight" >said 2>&1 && grep -q "^there is no record in '$PWD/nowhere': .* PLAIT_FLIGHT_RECORD, TMPDIR" said ||
    complain "$(cat said)"
  mkdir -p broken && echo "of the user" >broken/rank-0.flight
  "$flight" broken >said 2>&1
  [[ $? == 2 && $(cat said) == "scripts/flight: flight record 'broken/rank-0.flight' has 12 bytes, but a record has at least 4096" ]] ||
    complain "a broken record: $(cat said)"
  # Any content of the files gives an answer or an error text.
  what="damaged records"
  "$flight" --all 5 records >said 2>&1
  grep -qE "^ +[0-9]+  [0-9:.]+  +[0-9]+ us  trainer 1  (all_reduce|send|receive) " said || complain "no table: $(cat said)"
  python3 "$fuzz" "$flight" "$(echo records/*)" >said 2>&1 || complain "$(cat said)"
done
((failures == 0))
