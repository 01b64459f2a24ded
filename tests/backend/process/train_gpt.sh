#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train_gpt on processes: one binary for every engine, and the losses and weights of threads, byte for byte.
#   train_gpt.sh TRAIN_GPT MPI_LAUNCHER|none gloo|none SCRATCH_DIR TEXT ["RANKS PLAN"...]
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
# Settings for root, and for more ranks than processors, under Open MPI; MPICH needs none.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
train_gpt="$1" launcher="$2" gloo="$3" scratch="$4" text="$5"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" || exit 1
export PLAIT_RENDEZVOUS="$PWD/rendezvous"
unset PLAIT_INTERFACE GLOO_SOCKET_IFNAME TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT MASTER_PORT
shift 5
(($#)) || set -- "2 tp2" "8 dp2.tp2.pp2"
failures=0
complain() {
  printf 'train_gpt.sh: %s\n' "$*" >&2
  failures=$((failures + 1))
}

for case in "$@"; do
  read -r ranks plan <<<"$case"
  what=(--data "$text" --plan "$plan" --steps 5 --generate 8)
  "$train_gpt" "${what[@]}" --losses host.csv --save host.st >host.out || complain "host: exit code $?"
  if [[ $launcher != none ]]; then
    timeout 100 "$launcher" -n "$ranks" "$train_gpt" "${what[@]}" --backend mpi \
      --losses mpi.csv --save mpi.st >mpi.out 2>err </dev/null || complain "mpi: exit code $?: $(cat err)"
    cmp -s host.csv mpi.csv && cmp -s host.st mpi.st || complain "mpi, $plan: not the losses or weights of threads"
    # mpirun may give a terminal, so only the end of the output is compared.
    cmp -s <(tail -n 3 host.out) <(tail -n 3 mpi.out) || complain "mpi, $plan: another sample: $(tail -n 3 mpi.out)"
  fi
  if [[ $gloo != none ]]; then
    for ((rank = 0; rank < ranks; ++rank)); do
      RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE="$ranks" timeout 100 "$train_gpt" "${what[@]}" --backend gloo \
        --losses gloo.csv --save gloo.st >"gloo.$rank" 2>"err.$rank" </dev/null &
    done
    wait
    [[ ! -s gloo.1 ]] || complain "gloo, $plan: rank 1 prints: $(cat gloo.1)"
    cmp -s host.csv gloo.csv && cmp -s host.st gloo.st ||
      complain "gloo, $plan: not the losses or weights of threads: $(cat err.0)"
  fi
  rm -f ./*.csv ./*.st
done

# A rank that waits for the others to come ends at a signal.
if [[ $gloo != none ]]; then
  RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 PLAIT_RENDEZVOUS="$PWD/lonely" "$train_gpt" --data "$text" --plan dp2 --backend gloo \
    >out 2>err </dev/null &
  for ((tries = 0; tries < 3000; ++tries)); do [[ ! -e lonely ]] || break; sleep 0.02; done
  kill -TERM $!
  SECONDS=0
  wait $!
  code=$?
  ((code == 143 && SECONDS < 50)) || complain "SIGTERM at the rendezvous: exit code $code after $SECONDS s: $(cat err)"
  grep -q "^train_gpt: gloo: rank 0: SIGTERM has ended the start: rank 1 has not come to rendezvous folder" err ||
    complain "SIGTERM at the rendezvous: $(cat err)"
  [[ ! -e lonely ]] || complain "SIGTERM at the rendezvous leaves $(ls -a lonely)"
  RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 "$train_gpt" --data "$text" --plan dp2 --backend gloo --timeout 0.2 >out 2>err </dev/null
  [[ $? == 1 ]] && grep -q "rank 1 has not come .* within 200 ms" err || complain "--timeout 0.2: $(cat err)"
fi

# One that waits in a step for a rank that is stopped ends two seconds after the signal.
stopped() { # stopped ENGINE JOB RANK_0 RANK_1: processes; JOB ends with the code of rank 0
  local tries code
  for ((tries = 0; tries < 3000; ++tries)); do (($(cat "$1.csv" 2>/dev/null | wc -l) < 4)) || break; sleep 0.02; done
  kill -STOP "$4"
  sleep 0.1
  kill -TERM "$3"
  SECONDS=0
  # mpirun gives ranks some time to end.
  for ((tries = 0; tries < 1200; ++tries)); do
    [[ -r /proc/$3/stat && $(cut -d ' ' -f 3 "/proc/$3/stat") != Z ]] || break
    sleep 0.05
  done
  ((SECONDS >= 1 && SECONDS < 20)) || complain "SIGTERM in a step, $1: it took $SECONDS s"
  kill -KILL "$4" 2>/dev/null
  wait "$2" 2>/dev/null
  code=$?
  ((code == 143)) || complain "SIGTERM in a step, $1: exit code $code: $(cat "$1.err")"
  grep -qE "rank 0 on host [^ ]*: .* on group .0,1. .*has waited ([2-9]|1[0-9])[0-9]{3} ms after SIGTERM for rank 1 on host" "$1.err" ||
    complain "SIGTERM in a step, $1: $(cat "$1.err")"
  ((failures == 0))
}
long=(--data "$text" --plan dp2 --steps 1000000)
if [[ $launcher != none ]]; then
  (
    "$launcher" -n 2 "$train_gpt" "${long[@]}" --backend mpi --log mpi.csv >mpi.out 2>mpi.err </dev/null &
    job=$! ranks=()
    for ((tries = 0; tries < 3000; ++tries)); do
      (($(cat mpi.csv 2>/dev/null | wc -l) < 2)) || break
      sleep 0.02
    done
    # There may be a process between them and the launcher.
    for rank in $(pgrep -f "^$train_gpt .*--backend mpi --log"); do
      [[ $(readlink "/proc/$rank/cwd") == "$PWD" ]] || continue
      at=$(tr '\0' '\n' <"/proc/$rank/environ" | sed -nE 's/^(OMPI_COMM_WORLD_RANK|PMI_RANK)=//p' | head -n 1)
      ranks[at]=$rank
    done
    stopped mpi "$job" "${ranks[@]}"
  ) &
  of_mpi=$!
fi
if [[ $gloo != none ]]; then
  ranks=()
  for rank in 1 0; do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 "$train_gpt" "${long[@]}" --backend gloo --log gloo.csv >gloo.out 2>gloo.err </dev/null &
    ranks[rank]=$!
  done
  stopped gloo "${ranks[0]}" "${ranks[@]}"
  wait "${ranks[1]}" 2>/dev/null
fi
[[ $launcher == none ]] || wait "$of_mpi" || failures=$((failures + 1))
rm -f ./*.csv

# ---- Checkpoints ---------------------------------------------------------------------------------
# run ENGINE RANKS ARGUMENTS...: runs on threads (host), over mpi or gloo; codes has the exit code of each process, and
# said.RANK its output. If `before` has a command for a process, this command starts it.
declare -A before=()
run() {
  local engine="$1" ranks="$2" rank processes=()
  shift 2
  codes=""
  rm -f said.*
  case $engine in
    host) "$train_gpt" "${what[@]}" "$@" >out 2>said.0 </dev/null; codes=" $?" ;;
    mpi) timeout 100 "$launcher" -n "$ranks" "$train_gpt" "${what[@]}" --backend mpi "$@" >out 2>said.0 </dev/null; codes=" $?" ;;
    gloo)
      for ((rank = 0; rank < ranks; ++rank)); do
        RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE="$ranks" timeout 100 ${before[$rank]:-} "$train_gpt" "${what[@]}" \
          --backend gloo "$@" >"out.$rank" 2>"said.$rank" </dev/null &
        processes+=($!)
      done
      for rank in "${processes[@]}"; do wait "$rank"; codes+=" $?"; done ;;
  esac
}
well() { # well ENGINE RANKS ARGUMENTS...
  run "$@"
  [[ $codes =~ ^(" 0")+$ ]] || complain "checkpoints: $*: exit codes$codes: $(cat said.*)"
}
# near LOSSES OTHER: the last three.
near() {
  paste -d, <(tail -n 3 "$1") <(tail -n 3 "$2") |
    awk -F, '{ d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || !(d <= 1e-5)) bad = 1; ++n } END { exit bad || n != 3 }'
}
what=(--data "$text" --batch 8 --generate 0)
engines=(host)
[[ $launcher == none ]] || engines+=(mpi)
[[ $gloo == none ]] || engines+=(gloo)
for plan in dp2 tp2; do
  well host 2 --plan $plan --steps 6 --losses whole.$plan.csv --save whole.$plan
  for engine in "${engines[@]}"; do
    well "$engine" 2 --plan $plan --steps 3 --checkpoint "$engine.$plan" --every 3
    # mpirun gives ranks a terminal, and this is a file.
    [[ $engine != mpi ]] || ! grep -q $'\e\|step .*\rstep' out || complain "a live line in a file: $(cat -v out)"
  done
done
for case in "host dp2 gloo tp2" "host tp2 gloo dp2" "gloo dp2 host tp2" "gloo tp2 host dp2" "gloo dp2 gloo dp2" \
  "host dp2 mpi tp2" "host tp2 mpi dp2" "mpi dp2 host tp2" "mpi tp2 host dp2" "mpi dp2 mpi dp2" "mpi dp2 gloo tp2"; do
  read -r engine plan other to <<<"$case"
  [[ " ${engines[*]} " == *" $engine "* && " ${engines[*]} " == *" $other "* ]] || continue
  rm -rf run
  cp -r "$engine.$plan" run
  well "$other" 2 --plan "$to" --steps 6 --checkpoint run --resume --losses rest.csv --save rest
  near "whole.$plan.csv" rest.csv || complain "checkpoints: $case: other losses: $(paste -d' ' "whole.$plan.csv" rest.csv)"
  [[ $plan != "$to" ]] || cmp -s "whole.$plan" rest || complain "checkpoints: $case: other weights"
done

# A log whose disk is full: all ranks end, and their state is saved.
if unshare --mount true 2>unshared; then
  mkdir full
  printf '#!/bin/sh\nexec unshare --mount sh -c \x27cd "%s" && mount -t tmpfs -o size=4k none full && head -c 4096 /dev/zero >full/other && exec "$0" "$@"\x27 "%s" "$@"\n' \
    "$PWD" "$train_gpt" >on_full
  chmod 755 on_full
  for engine in "${engines[@]:1}"; do
    train_gpt="$PWD/on_full" run "$engine" 2 --plan dp2 --steps 1000000 --checkpoint "full.$engine" --every 1000000 --log full/log
    [[ $codes =~ ^(" 2")+$ ]] || complain "a full disk, $engine: exit codes$codes"
    grep -qF "train_gpt: rank 0: log 'full/log' cannot be written: No space left on device; the state after step 1 is saved in 'full.$engine'" said.0 ||
      complain "a full disk, $engine: $(cat said.*)"
    well "$engine" 2 --plan dp2 --steps 6 --checkpoint "full.$engine" --resume --save rest
    cmp -s whole.dp2 rest || complain "after a full disk, $engine: other weights"
  done
else
  echo "train_gpt.sh: full disks are left out, as name spaces are not permitted: $(cat unshared)"
fi

# A folder that the host of rank 1 does not have: its name is another folder there, or none.
if [[ $gloo != none ]]; then
  if unshare --mount true 2>unshared; then
    mkdir -p hidden/run
    before[1]="$PWD/elsewhere"
    printf '#!/bin/sh\nexec unshare --mount sh -c \x27mount -t tmpfs none "%s/hidden" && exec "$@"\x27 sh "$@"\n' "$PWD" >elsewhere
    chmod 755 elsewhere
    begin=$SECONDS
    run gloo 2 --plan dp2 --checkpoint hidden/run
    ((SECONDS - begin < 50)) || complain "a hidden folder: it took $((SECONDS - begin)) s"
    [[ $codes == " 2 2" ]] || complain "a hidden folder: exit codes$codes"
    for rank in 0 1; do
      [[ $(wc -l <said.$rank) == 1 ]] && grep -q "folder of checkpoints 'hidden/run': rank 1 does not see a file that rank 0 has written there; use a folder that all hosts share" said.$rank ||
        complain "a hidden folder: rank $rank says: $(cat said.$rank)"
    done
    [[ $(ls -A hidden/run) == plait.lock ]] || complain "a hidden folder has $(ls -A hidden/run)"
    before=()
  else
    echo "train_gpt.sh: a folder that one host does not see is left out, as name spaces are not permitted: $(cat unshared)"
  fi
fi
what=()

# The plan once, and a line of each process.
if [[ $gloo != none ]]; then
  explain() {
    RANK="$1" LOCAL_RANK="$1" WORLD_SIZE=2 "$train_gpt" --explain --plan tp2 --backend gloo >out ||
      complain "--explain: exit code $?"
  }
  line="as the environment says (RANK, WORLD_SIZE, LOCAL_RANK)"
  explain 0
  grep -q "^mesh: tensor 2" out && [[ $(tail -n 1 out) == "this process: rank 0 of 2, local rank 0, $line" ]] ||
    complain "--explain on rank 0: $(cat out)"
  explain 1
  [[ $(cat out) == "this process: rank 1 of 2, local rank 1, $line" ]] || complain "--explain on rank 1: $(cat out)"
  "$train_gpt" --explain --plan tp2 --backend gloo >out || complain "--explain without a launcher: exit code $?"
  grep -q "^this process: the environment does not say which rank" out || complain "--explain without a launcher: $(cat out)"
fi
((failures == 0))
