# SPDX-License-Identifier: Apache-2.0
# For scripts that start jobs of MPI: source it.
#
# mpirun of Open MPI 4.1 with PMIx 4.2 may hang in PMIx_server_finalize, one of its threads waiting for a lock of another,
# when ranks have ended badly: all ranks have ended, mpirun never does, and its exit code is lost. This script kills it
# five seconds later.

# launched SECONDS LAUNCHER ARGUMENT...: runs a job for at most SECONDS; its output is in out and err. Returns its exit
# code, or 124 after that time. A job whose launcher had to be killed is run again, and 125 if it had to three times.
launched() {
  local attempt code
  for attempt in 1 2 3; do
    launched_once "$@"
    code=$?
    ((code == 125)) || return "$code"
  done
  return 125
}

# launched_once: one try of the above.
launched_once() {
  local limit="$1" id tick alone=0 children
  shift
  set -m  # a process group of its own, which signals reach as a whole
  "$@" >out 2>err </dev/null &
  id=$!
  set +m
  for ((tick = 1; tick <= 10 * limit; ++tick)); do
    kill -0 "$id" 2>/dev/null || break
    sleep 0.1
    ((tick % 10 == 0)) || continue
    children="$(ps -o stat= --ppid "$id")"
    if [[ -n $children ]] && ! grep -qv '^Z' <<<"$children"; then alone=$((alone + 1)); else alone=0; fi
    if ((alone == 5)); then
      kill -KILL "$id"
      wait "$id" 2>/dev/null
      remove_segments
      return 125
    fi
  done
  if kill -0 "$id" 2>/dev/null; then
    kill -TERM -- "-$id"
    sleep 1
    kill -KILL -- "-$id" 2>/dev/null
    wait "$id" 2>/dev/null
    return 124
  fi
  wait "$id"
}

# Removes segments of Open MPI that no process maps; a launcher that was killed has not removed
# them.
remove_segments() {
  local segment
  for segment in /dev/shm/vader_segment.*; do
    [[ ! -e $segment ]] || grep -qsF "$segment" /proc/[0-9]*/maps || rm -f "$segment"
  done
}
