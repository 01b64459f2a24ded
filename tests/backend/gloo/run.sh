#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What processes over Gloo do: the losses of threads, and a sentence on every rank when something is
# wrong, at once where that can be known and else at the time-out.
#   run.sh TRAINED SCRATCH_DIR
set -euo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1 TRAINED_SECONDS=250
trained="$(realpath "$1")" scratch="$2"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"
export PLAIT_RENDEZVOUS="$PWD/rendezvous"
unset PLAIT_INTERFACE GLOO_SOCKET_IFNAME TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT MASTER_PORT
failures=0
declare -A process=() code=()
what="nothing yet"

complain() {
  printf 'run.sh: %s: %s\n' "$what" "$*" >&2
  failures=$((failures + 1))
}
end_all() {
  for name in "${!process[@]}"; do kill -KILL "${process[$name]}" 2>/dev/null || true; done
}
trap end_all EXIT

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# start NAME RANK SIZE ARGUMENTS...: one process, whose output is in NAME.out and NAME.err.
start() {
  local name="$1" rank="$2" size="$3"
  shift 3
  rm -f "$name.out" "$name.err"
  RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE="$size" "$trained" "$@" >"$name.out" 2>"$name.err" \
    </dev/null &
  process[$name]=$!
}
# ends NAME CODE [WORDS...]: with one sentence on standard error that has the words, or with none.
ends() {
  local name="$1" expected="$2" words lines
  shift 2
  code[$name]=0
  wait "${process[$name]}" 2>/dev/null || code[$name]=$?
  unset "process[$name]"
  lines="$(wc -l <"$name.err")"
  [[ ${code[$name]} == "$expected" ]] ||
    complain "process $name: exit code ${code[$name]} instead of $expected: $(cat "$name.err")"
  if (($# == 0)); then
    [[ ! -s $name.err ]] || complain "process $name has complained: $(cat "$name.err")"
  else
    [[ $lines == 1 ]] || complain "process $name: not one sentence: $(cat "$name.err")"
  fi
  for words in "$@"; do
    grep -qE -e "$words" "$name.err" || complain "process $name does not say '$words': $(cat "$name.err")"
  done
}
# all SIZE ARGUMENTS...: ranks 0 to SIZE - 1, the last one first.
all() {
  local rank size="$1"
  shift
  for ((rank = size - 1; rank >= 0; --rank)); do start "$rank" "$rank" "$size" "$@"; done
}
all_end() {
  local rank size="$1"
  shift
  for ((rank = 0; rank < size; ++rank)); do ends "$rank" "$@"; done
}
nothing_left() { [[ ! -e rendezvous ]] || complain "the rendezvous folder is left: $(ls -a rendezvous)"; }
# until_file FILE: it is there and not empty.
until_file() {
  local tries
  for ((tries = 0; tries < 6000; ++tries)); do
    [[ ! -s $1 ]] || return 0
    sleep 0.01
  done
  complain "'$1' has not come"
}
# within MILLISECONDS START: since START.
within() {
  local taken=$(($(milliseconds) - $2))
  ((taken < $1)) || complain "it took $taken ms, not below $1 ms"
}

for case in "2 dp2" "3 dp3" "4 dp2.pp2"; do
  read -r size plan <<<"$case"
  "$trained" threads "$plan" steps=8 >threads.out
  for how in ranked unchecked library; do
    what="$how $plan"
    all "$size" "$how" "$plan" steps=8
    all_end "$size" 0
    nothing_left
    # The sum of two numbers is the same in both orders; sums of more ranks are near.
    if [[ $how == library && $plan == dp3 ]]; then
      paste -d' ' threads.out 0.out | awk '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || !(d <= 1e-10)) exit 1 }' ||
        complain "not near the losses of threads: $(diff threads.out 0.out)"
    else
      cmp -s threads.out 0.out || complain "not the losses of threads: $(diff threads.out 0.out)"
    fi
  done
done

for case in "3 dp3 ranked 1" "4 dp2.pp2 library 3" "2 dp2 unchecked 0" "2 dp2 ranked 1"; do
  read -r size plan how victim <<<"$case"
  what="rank $victim of $size is killed ($how $plan)"
  all "$size" "$how" "$plan" steps=100000 timeout=200000
  until_file 0.out
  begin="$(milliseconds)"
  kill -KILL "${process[$victim]}"
  for ((rank = 0; rank < size; ++rank)); do
    if ((rank == victim)); then ends "$rank" 137 && continue; fi
    ends "$rank" 1 "^rank $rank on host [^ ]*: .* on group .*: the connection to (rank . on host .*|another rank of the group) is lost"
  done
  within 50000 "$begin"
done

for case in "3 dp3 ranked 1" "4 dp2.pp2 library 0"; do
  read -r size plan how victim <<<"$case"
  what="rank $victim of $size is stopped ($how $plan)"
  all "$size" "$how" "$plan" steps=100000 timeout=1000 start=60000
  until_file 0.out
  kill -STOP "${process[$victim]}"
  begin="$(milliseconds)"
  for ((rank = 0; rank < size; ++rank)); do
    ((rank != victim)) || continue
    ends "$rank" 1 "^rank $rank on host [^ ]*: .* on group .*( has waited 1000 ms for (rank . on host |another rank)|: the connection to .* is lost)"
  done
  [[ $plan != dp3 ]] || grep -q "has waited 1000 ms for rank 1 on host [^ ]* (Gloo)" 0.err 2.err || complain "rank 1 is not named"
  within 20000 "$begin"
  kill -CONT "${process[$victim]}"
  ends "$victim" 1 "^rank $victim on host "
done

what="a rank never starts"
start 0 0 3 ranked dp3 timeout=3000
start 1 1 3 ranked dp3 timeout=60000
ends 0 1 "rank 0: rank 2 has not come to rendezvous folder '$PLAIT_RENDEZVOUS' within 3000 ms; is that process running"
ends 1 1 "rank 1: the start has failed on rank 0: rank 2 has not come"
nothing_left
what="rank 0 never starts"
start 1 1 2 ranked dp2 timeout=500
ends 1 1 "rank 1: rank 0 has not come to rendezvous folder '$PLAIT_RENDEZVOUS' within 500 ms"
nothing_left

what="a rank is started twice"
start 0 0 3 ranked dp3 steps=2 timeout=60000
until_file rendezvous/writer
start 1 1 3 ranked dp3 steps=2 timeout=60000
for ((tries = 0; tries < 6000; ++tries)); do
  compgen -G 'rendezvous/*.here.1' >many && break
  sleep 0.01
done
start again 1 3 ranked dp3
ends again 1 "rank 1 has come already, as process ${process[1]} on host .*; was it started twice"
start again 0 3 ranked dp3
ends again 1 "is in use: process ${process[0]} on host .* was rank 0 started twice"
start 2 2 3 ranked dp3 steps=2 timeout=60000
all_end 3 0
nothing_left

what="a rank dies before all are connected"
start 0 0 3 ranked dp3 timeout=200000
start 1 1 3 ranked dp3 timeout=200000
until_file rendezvous/writer
begin="$(milliseconds)"
sleep 0.2
kill -KILL "${process[0]}"
ends 0 137
ends 1 1 "rank 1: rank 0, process .* on host .*, has ended before all ranks were connected"
within 20000 "$begin"
[[ -d rendezvous ]] || complain "this test needs a folder that is left"
what="a folder that a killed job has left"
start 1 1 2 ranked dp2 timeout=400
ends 1 1 "was left by process .* which has ended, and rank 0 has not come within 400 ms"
: >rendezvous/plait-0123456789abcdef.partial
all 2 ranked dp2 steps=2
all_end 2 0
nothing_left

what="another number of processes"
start 0 0 3 ranked dp3 timeout=60000
start 1 1 2 ranked dp2
ends 1 1 "rank 0 was started as one of 3 processes, this rank as one of 2"
kill -KILL "${process[0]}"
ends 0 137
what="another job"
MASTER_PORT=1 start 0 0 2 ranked dp2 timeout=60000
until_file rendezvous/writer
sleep 0.1
MASTER_PORT=2 start 1 1 2 ranked dp2
ends 1 1 "is of job 'MASTER_PORT=1', this process is of job 'MASTER_PORT=2'"
kill -KILL "${process[0]}"
ends 0 137
# Words of a note that would move the terminal's cursor, or lead out of the folder.
what="a note of somebody else"
for words in $'0123456789abcdef\n\e[2J' $'../../0123456789\n2'; do
  printf 'plait gloo 1\n%s\n\nx\n' "$words" >rendezvous/writer
  start 1 1 2 ranked dp2 timeout=60000
  ends 1 1 "has a note 'writer' that was not written by plait"
done
rm -r rendezvous

what="another token"
start 0 0 2 ranked dp2 token=one
start 1 1 2 ranked dp2 token=two
all_end 2 1 "the ranks have different settings: the token, of which rank 1 has another value than rank 0"
what="another plan"
start 0 0 2 ranked dp2
start 1 1 2 ranked dp3
all_end 2 1 "the mesh of the plan: 'data 2' on rank 0, 'data 3' on rank 1"
nothing_left

# Paths. Rank 0 says what is wrong; the others say the same, or that it has not come.
echo "of the user" >file
ln -s file link
mkdir open && chmod 755 open
for case in "nowhere/rendezvous|cannot be made: No such file or directory" \
  "/proc/rendezvous|cannot be made: " "file|exists and is not a folder; choose another path" \
  "link|exists and is not a folder but a symbolic link" "open|may be entered by other users"; do
  what="rendezvous ${case%%|*}"
  export PLAIT_RENDEZVOUS="${case%%|*}"
  start 0 0 2 ranked dp2 timeout=500
  ends 0 1 "rendezvous folder '$PLAIT_RENDEZVOUS' ${case#*|}"
done
[[ $(cat file) == "of the user" && -L link && -z $(ls -A open) ]] || complain "the user's files have changed"
what="no rendezvous"
unset PLAIT_RENDEZVOUS
start 0 0 2 ranked dp2
ends 0 1 "gloo: the ranks do not know where to meet; set PLAIT_RENDEZVOUS"
what="Redis"
for server in redis://127.0.0.1:6379 rediss://job:correct-horse@127.0.0.1:6379; do
  PLAIT_RENDEZVOUS="$server" start 0 0 2 ranked dp2
  ends 0 1 "^gloo: PLAIT_RENDEZVOUS, or .rendezvous, names a server of Redis, .*; write the path of a folder .* etcd .* MPI"
  ! grep -q correct 0.err || complain "the password is repeated"
done
export PLAIT_RENDEZVOUS="$PWD/rendezvous"
what="a folder of the user's"
mkdir -m 700 rendezvous && echo "of the user" >rendezvous/mine
all 2 ranked dp2 steps=2
all_end 2 0
[[ $(ls -A rendezvous) == mine ]] || complain "the folder has $(ls -A rendezvous)"
rm -r rendezvous

what="no such interface"
PLAIT_INTERFACE=none start 0 0 2 ranked dp2
start 1 1 2 ranked dp2
ends 0 1 "PLAIT_INTERFACE is 'none', and there is no interface of this name .*; set PLAIT_INTERFACE .* lo "
ends 1 1 "the start has failed on rank 0: PLAIT_INTERFACE is 'none'"
nothing_left

what="an interface with an IPv6 address alone"
if unshare --map-root-user --net ip link set lo up 2>many; then
  "$trained" threads dp2 steps=8 >threads.out
  TRAINED="$trained" unshare --map-root-user --net bash -c '
    ip link set lo up && ip address del 127.0.0.1/8 dev lo || exit 1
    for rank in 0 1; do
      RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE=2 PLAIT_INTERFACE=lo "$TRAINED" ranked dp2 steps=8 >"$rank.out" &
    done
    wait' || complain "it cannot be made"
  cmp -s threads.out 0.out || complain "not the losses of threads: $(diff threads.out 0.out)"
else
  echo "run.sh: the case with IPv6 is left out: $(head -n 1 many)"
fi

if ((failures > 0)); then
  echo "run.sh: $failures failures" >&2
  exit 1
fi
echo "trained or refused as it should be"
