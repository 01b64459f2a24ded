#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plants faults in a job of two processes, and checks that plait-doctor finds each of them with the right rank and cause,
# and does not find them in a job without faults. If a rank does not come or is killed, plait-doctor must end in time with
# exit code 3 and with a sentence.
#   [TIMES=N] planted.sh quiet|jobs SCRATCH_DIR THREADS GLOO|none [MPI MPIRUN]
# THREADS, GLOO and MPI are the programs plait-doctor-<backend>. quiet: tests a busy loop, for which no other process may
# be busy; jobs: tests all other faults.
set -uo pipefail
export LC_ALL=C
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
part="$1" scratch="$2" threads="$3" gloo="$4"
shift 4
rm -rf "$scratch" && mkdir -p "$scratch" && cd "$scratch" || exit 1
while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(SLURM|PMI|OMPI_COMM|PMIX|PLAIT|TORCHELASTIC)_')
unset RANK WORLD_SIZE LOCAL_RANK OPENBLAS_NUM_THREADS GOTO_NUM_THREADS OMP_NUM_THREADS
failures=0 what="nothing yet"
complain() {
  printf 'planted.sh: %s: %s; output: %s\n' "$what" "$*" "$(cat out err 2>/dev/null)" >&2
  failures=$((failures + 1))
}
# doctor CODE ARGUMENT...: runs scripts/doctor, and compares its exit code; CODE 01 means 0 or 1.
doctor() {
  local expected="$1" code=0
  shift
  timeout 120 "$root/scripts/doctor" "$@" >out 2>err </dev/null || code=$?
  [[ $expected == *$code* ]] || complain "exit code $code, not one of $expected"
}
# finds ID TEXT, finds_no ID TEXT: looks for a finding in the report; both words are regular expressions.
finds() { grep -qE -- "^[a-z]+: \[$1\] $2" out || complain "no finding '$1' '$2'"; }
finds_no() { ! grep -qE -- "^[a-z]+: \[$1\] $2" out || complain "a finding '$1' '$2'"; }

# The first two processors that this process may use.
cpus=()
IFS=, read -ra ranges <<<"$(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)"
for range in "${ranges[@]}"; do
  for ((cpu = ${range%-*}; cpu <= ${range#*-} && ${#cpus[@]} < 2; ++cpu)); do cpus+=("$cpu"); done
done
if ((${#cpus[@]} < 2)); then
  echo "skipped: this process may use only one processor"
  exit 0
fi

# binding CPUS0 CPUS1 PROGRAM FILE: writes a script FILE, which writes its process number into pid.RANK, and becomes
# PROGRAM on the processors CPUS0 if it is rank 0, else on CPUS1.
binding() {
  printf '%s\n' '#!/bin/sh' "set -- $1 $2 \"\$@\"" 'case "${PLAIT_RANK:-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" in
0) cpus="$1" ;;
*) cpus="$2" ;;
esac' "shift 2" "echo \$\$ >pid.\${PLAIT_RANK:-\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}}" \
    "exec taskset -c \"\$cpus\" $3 \"\$@\"" >"$4"
  chmod +x "$4"
}

# busy_loop BACKEND: plants a busy process on the processor of rank 1. `start` has the arguments that start two ranks.
busy_loop() {
  local backend="$1" loop try
  what="$backend, a busy loop on the processor of rank 1"
  # Without an external program, so that the name of the process is the shell's.
  taskset -c "${cpus[1]}" sh -c 'while :; do :; done' &
  loop=$!
  # A run is repeated if another process has used the processor of rank 0 meanwhile.
  for ((try = 1; try <= 3; ++try)); do
    doctor 1 "${start[@]}" ./bound --only links,settings
    finds busy-cpu "rank 1 \(host .*\): .*process $loop .*cpu ${cpus[1]}"
    finds_no 'slow-rank|slow-together|slow-pair|shared-link' ''
    grep -q 'not quiet' out || complain "it does not say that the machine is not quiet"
    is_busy 'ranks? 0' || break
  done
  kill "$loop" && wait "$loop" 2>/dev/null
  ((try <= 3)) || others_are_busy

  [[ $backend == gloo ]] || return
  what="$backend, no busy loop"
  for ((try = 1; try <= 3; ++try)); do
    doctor 01 "${start[@]}" ./bound --only links,settings
    is_busy '' || break
    finds_no busy-cpu ".*process $loop "
  done
  ((try <= 3)) || others_are_busy
}
is_busy() { grep -qE -- "^[a-z]+: \[busy-cpu\] $1" out; }
# Ends the test: on a busy machine, a finding that should be missing is right.
others_are_busy() {
  ((failures == 0)) || exit 1
  echo "skipped: other processes are busy: $(grep busy-cpu out)"
  exit 0
}

# faults BACKEND PROGRAM [OPTION]...: plants each fault in a job of two processes. OPTION: more options of scripts/doctor.
faults() {
  local backend="$1" program="$2"
  shift 2
  binding "${cpus[0]}" "${cpus[1]}" "$program" bound
  binding "${cpus[0]}" "${cpus[0]}" "$program" on_one
  binding "${cpus[0]},${cpus[1]}" "${cpus[0]},${cpus[1]}" "$program" on_both
  local start=(--backend "$backend" -n 2 "$@" --timeout 20 --program)

  if [[ $part == quiet ]]; then
    busy_loop "$backend"
    return
  fi

  what="$backend, nothing planted"
  doctor 01 "${start[@]}" ./bound --only settings
  finds_no 'shared-cpu|blas-threads|blas-code|unlike-blas|rank-missing' ''

  what="$backend, both ranks on one processor"
  doctor 1 "${start[@]}" ./on_one --only settings
  finds shared-cpu "ranks 0 and 1 \(host .*\): .* cpu ${cpus[0]}"

  what="$backend, two BLAS threads for each of two ranks"
  OPENBLAS_NUM_THREADS=2 doctor 1 "${start[@]}" ./on_both --only settings
  finds blas-threads "ranks 0 and 1 \(host .*\): .* 4 BLAS threads .* cpus ${cpus[0]} and ${cpus[1]}"

  what="$backend, a BLAS with code for an older processor on rank 1"
  sed 's/^exec /case "${PLAIT_RANK:-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" in 1) export OPENBLAS_CORETYPE=Prescott ;; esac\nexec /' \
    bound >older && chmod +x older
  doctor 1 "${start[@]}" ./older --only settings
  finds 'blas-code|unlike-blas' 'rank 1 .*Prescott'

  what="$backend, a rank that is killed"
  rm -f pid.*
  (
    for ((tries = 0; tries < 1000; ++tries)); do [[ ! -s pid.1 ]] || break; sleep 0.01; done
    sleep 1
    kill -KILL "$(cat pid.1)"
  ) &
  local begin=$SECONDS
  doctor 3 "${start[@]}" ./bound --only links --full
  wait $!
  ((SECONDS - begin < 40)) || complain "it took $((SECONDS - begin)) s"
  # mpirun may end earlier than a rank that it has killed.
  for ((tries = 0; tries < 500; ++tries)); do kill -0 "$(cat pid.0)" 2>/dev/null || break; sleep 0.01; done
  ((tries < 500)) || complain "rank 0 still runs"
}

# Gives a job whose ranks are threads a quota of half a processor, if this process may make a control group.
quota() {
  local group
  what="a quota of half a processor"
  if [[ -w /sys/fs/cgroup/cgroup.subtree_control ]] && grep -qw cpu /sys/fs/cgroup/cgroup.subtree_control; then
    group="/sys/fs/cgroup/plait_doctor.$$"
    mkdir "$group" 2>/dev/null && echo "50000 100000" >"$group/cpu.max" || return 0
  elif [[ -w /sys/fs/cgroup/cpu ]] && grep -q ':cpu[,:]' /proc/self/cgroup; then
    group="/sys/fs/cgroup/cpu/plait_doctor.$$"
    mkdir "$group" 2>/dev/null && echo 50000 >"$group/cpu.cfs_quota_us" || return 0
  else
    return 0
  fi
  sh -c 'echo $$ >"$0/cgroup.procs" && shift 0 && exec "$@"' "$group" "$root/scripts/doctor" -n 2 \
    --program "$threads" --only links,settings >out 2>err </dev/null
  local code=$?
  sleep 0.2
  rmdir "$group" 2>/dev/null || echo "planted.sh: cannot remove $group" >&2
  [[ $code == 1 ]] || complain "exit code $code, not 1"
  finds blas-threads 'ranks 0 and 1 .*0.5'
  finds throttled 'ranks 0 and 1 '
}

for ((time = 0; time < ${TIMES:-1}; ++time)); do
  if [[ $gloo != none ]]; then faults gloo "$gloo"; fi
  if (($# == 2)); then faults mpi "$1" --mpirun "$2 --bind-to none"; fi
  [[ $part == jobs ]] || continue
  quota

  if [[ $gloo != none ]]; then
    what="a rank that does not come"
    begin=$SECONDS
    mkdir -p rendezvous
    PLAIT_RANK=0 PLAIT_WORLD_SIZE=2 PLAIT_LOCAL_RANK=0 PLAIT_LOCAL_SIZE=2 PLAIT_RENDEZVOUS="$PWD/rendezvous/1" \
      timeout 60 "$gloo" --timeout 3 >out 2>err
    code=$?
    ((code == 3)) || complain "exit code $code, not 3"
    ((SECONDS - begin < 15)) || complain "it took $((SECONDS - begin)) s"
    finds rank-missing 'rank 1.*look at the last messages of rank 1'
    grep -q '^[a-z]*: \[' out || complain "the settings of rank 0 are not reported"
  fi
done
exit "$((failures > 0))"
