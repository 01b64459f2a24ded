#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/doctor: options, exit codes of ranks and launchers, and that no process is left. A shell script takes the
# place of the program, and another one the place of mpirun.
#   doctor.sh SCRATCH_DIR
set -uo pipefail
scratch="$1"
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
rm -rf "$scratch" && mkdir -p "$scratch/a folder" && cd "$scratch/a folder" || exit 1
for name in PLAIT_RANK PLAIT_ELASTIC OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK MPI_LOCALRANKID TORCHELASTIC_RUN_ID RANK \
  WORLD_SIZE SLURM_STEP_ID SLURM_STEP_NUM_TASKS PLAIT_RENDEZVOUS PLAIT_JOB_SECRET_FILE; do
  unset "$name"
done
failures=0
complain() { printf 'doctor.sh: %s; its output: %s\n' "$*" "$(head -c 600 out err 2>/dev/null)" >&2; failures=$((failures + 1)); }

# The program: rank i sleeps, or ends by the i-th word of CODES.
cat >program <<'END'
#!/bin/sh
rank="${PLAIT_RANK:-${OMPI_COMM_WORLD_RANK:-0}}"
[ "$rank" != 0 ] || echo "in $(pwd):$(printf ' <%s>' "$@")"
shift $#
set -- $CODES
shift "$rank"
case "$1" in
  SIG*) kill -s "${1#SIG}" $$ ;;
  sleep) exec sleep 300 ;;
esac
exit "$1"
END
# The launcher: `mpirun -n N COMMAND...` starts N processes and waits for them as HOW says.
cat >launcher <<'END'
#!/bin/sh
[ "$HOW" != refuses ] || exit 1
ranks="$2"
shift 2
rank=0
while [ "$rank" -lt "$ranks" ]; do
  OMPI_COMM_WORLD_RANK="$rank" "$@" &
  rank=$((rank + 1))
done
[ "$HOW" != hangs ] || exec sleep 300
wait
[ "$HOW" != fails ] || exit 9
END
chmod +x program launcher

# doctor CODE CODES ARGUMENT...: runs the script, and compares its exit code.
doctor() {
  local expected="$1" codes="$2" code=0
  shift 2
  CODES="$codes" timeout 60 "$root/scripts/doctor" "$@" >out 2>err </dev/null || code=$?
  ((code == expected)) || complain "$* with '$codes': exit code $code, not $expected"
}
says() { grep -qE -- "^doctor: $1\$" err || complain "it does not say '$1'"; }
is_quiet() { [[ ! -s err ]] || complain "it has errors"; }

# ---- Options -------------------------------------------------------------------------------------

doctor 2 0 --backend smoke && says "--backend is threads, mpi, gloo or cuda, got 'smoke'"
for option in --backend -n --program --mpirun; do
  doctor 2 0 "$option" && says "$option needs a value; see scripts/doctor --help"
done
for number in 0 -1 2.5 65537 123456 two; do
  doctor 2 0 -n "$number" && says "-n needs a whole number from 1 to 65536, the number of ranks; got '$number'"
done
doctor 2 0 --program missing && says "--program 'missing' is not a program: it must be a file that may be executed"
doctor 2 0 --program "$PWD" && says "--program '.*' is not a program: it must be a file that may be executed"
doctor 2 0 --program program --build && says "--build and --program contradict each other; leave one out"
doctor 2 0 --program program --mpirun mpirun && says "--mpirun needs --backend mpi, not 'threads'"
doctor 0 0 --help && grep -qF -e "--program FILE" out || complain "--help"
grep -q "^source\|^here" out && complain "--help prints code"

for variables in PLAIT_RANK=0 OMPI_COMM_WORLD_RANK=3 PMI_RANK=1 "RANK=0 WORLD_SIZE=2" "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2"; do
  code=0
  env $variables CODES=0 "$root/scripts/doctor" --program program >out 2>err || code=$?
  ((code == 2)) || complain "$variables: exit code $code"
  says "a launcher has started this process \(${variables% SLURM*}\).*|a launcher.*\(RANK=0 and WORLD_SIZE=2\).*"
done
# A batch script of Slurm, and a shell of one task.
for variables in "SLURM_STEP_ID=4294967291 SLURM_PROCID=0" "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1"; do
  env $variables CODES=0 "$root/scripts/doctor" --program program >out 2>err || complain "$variables: refused"
done

# ---- Exit codes ----------------------------------------------------------------------------------

for code in 0 1 2 3; do
  doctor "$code" "$code" -n 3 --program program --store "b c" '*' && is_quiet
  [[ $(<out) == "in $PWD: <-n> <3> <--store> <b c> <*>" ]] || complain "other arguments"
done
doctor 0 0 --program program && [[ $(<out) == "in $PWD: <>" ]] || complain "no arguments"
doctor 3 7 --program program && says "the program ended with exit code 7"
doctor 3 SIGSEGV --program program && says "the program was ended by signal 11 \(SIGSEGV\)"

jobs=(mpi)
if command -v python3 >/dev/null; then jobs+=(gloo); fi
for backend in "${jobs[@]}"; do
  of=(--backend "$backend" -n 3 --program program)
  [[ $backend == gloo ]] || of+=(--mpirun ./launcher)
  for codes in "0 0 0" "1 0 0" "0 2 1" "1 1 3"; do
    worst="$(tr ' ' '\n' <<<"$codes" | sort -n | tail -n 1)"
    doctor "$worst" "$codes" "${of[@]}" --store "b c" && is_quiet
    [[ $(<out) == "in $PWD: <--store> <b c>" ]] || complain "other arguments"
  done
  doctor 3 "0 9 0" "${of[@]}" && says "rank 1 ended with exit code 9"
  # A rank that does not end is ended after another one has failed.
  doctor 3 "3 sleep 3" "${of[@]}" && says "these ranks were never started, or have not ended by themselves: 1; (launch|launcher) .*"
  doctor 3 "0 0 SIGKILL" "${of[@]}" && says "rank 2 was ended by signal 9 \(SIGKILL\)"
done

of=(--backend mpi -n 2 --program program --mpirun ./launcher)
doctor 3 "9 SIGTERM" "${of[@]}" && says "rank 0 ended with exit code 9; rank 1 was ended by signal 15 \(SIGTERM\)"
HOW=refuses doctor 3 "0 0" "${of[@]}" &&
  says "these ranks were never started, or have not ended by themselves: 0, 1; launcher ended with exit code 1"
HOW=fails doctor 3 "0 1" "${of[@]}" && says "all ranks have ended as they should, but launcher ended with exit code 9"
HOW=hangs doctor 1 "0 1" "${of[@]}" && says "all ranks have ended, but launcher did not; it was killed"
doctor 3 "0 0" "${of[@]:0:6}" --mpirun ./no_launcher && says "these ranks were never started.*: 0, 1; no_launcher ended with exit code 127"

# ---- Signals -------------------------------------------------------------------------------------

left() { grep -lsz "^MARK=of $$\$" /proc/[0-9]*/environ | wc -l; }
for backend in threads "${jobs[@]}"; do
  of=(--backend "$backend" -n 2 --program program)
  [[ $backend != mpi ]] || of+=(--mpirun ./launcher)
  for signal in INT TERM; do
    rm -f out
    MARK="of $$" CODES="sleep sleep" env --default-signal=INT "$root/scripts/doctor" "${of[@]}" >out 2>err </dev/null &
    id=$!
    for ((turn = 0; turn < 600; ++turn)); do
      [[ ! -s out ]] || break
      sleep 0.05
    done
    [[ -s out ]] || complain "$backend: the program has not started"
    kill -s "$signal" "$id"
    code=0
    wait "$id" || code=$?
    ((code == 128 + $(kill -l "$signal"))) || complain "$backend: exit code $code after SIG$signal"
    (($(left) == 0)) || complain "$backend: $(left) processes are left after SIG$signal"
    for folder in "$root"/build/doctor_codes."$id".*; do
      [[ ! -e $folder ]] || complain "$folder is left"
    done
  done
done
((failures == 0))
