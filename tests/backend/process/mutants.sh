#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plants faults into the backend of processes, one after another, and demands that a test of it fails with
# the words that it has for the fault.
#   mutants.sh BUILD_DIR SCRATCH_DIR [NAME...]
set -uo pipefail
export LC_ALL=C TRAINED_SECONDS=20
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../../.." && pwd)"
build="$(realpath "$1")/tests/backend/process" scratch="$(realpath -m "$2")"
shift 2
selection=" $* "
mkdir -p "$scratch"
found=0 missed=0 skipped=0

say() { printf 'mutants.sh: %s: %s\n' "$name" "$*"; }
miss() {
  say "$*" >&2
  missed=$((missed + 1))
}

# program ENGINE SOURCE...: compiled with the planted fault, as $tree/program.
program() {
  local engine="$1" compiler="${CXX:-g++}" options=(-std=c++20 -O0 "-I$tree/include" "-I$root/tests")
  shift
  case $engine in
    gloo) "$compiler" "${options[@]}" "$@" -o "$tree/program" -lgloo -lcrypto -pthread ;;
    *)
      OMPI_CXX="$compiler" MPICH_CXX="$compiler" "mpicxx.$engine" "${options[@]}" "$@" \
        "$here/engine_mpi.cpp" -o "$tree/program"
      ;;
  esac
}
# check ENGINE: runs the test of that engine with the program, in a separate session.
check() {
  local test=("$here/../gloo/run.sh" "$tree/program" "$tree/run")
  [[ $1 == gloo ]] ||
    test=("$here/mpi.sh" "$1" "$(command -v "mpirun.$1" || command -v "mpiexec.$1")" "$tree/program"
      "$build/suite_$1" "$tree/run")
  setsid bash -c 'echo $$ >"$0" && exec "$@"' "$tree/session" "${test[@]}" >"$tree/said" 2>&1 </dev/null
}
# end_session: ends the processes that check has started and that still run.
end_session() {
  local session signal tries
  session="$(cat "$tree/session" 2>/dev/null)" || return 0
  for signal in TERM KILL; do
    pkill "-$signal" -s "$session" || return 0
    for ((tries = 0; tries < 30; ++tries)); do
      pgrep -s "$session" >"$tree/left" || return 0
      sleep 0.1
    done
  done
}

# mutant NAME ENGINE HEADER SED WORDS: the test of ENGINE complains in WORDS when the header is changed.
mutant() {
  local name="$1" engine="$2" header="$3" change="$4" words="$5" tree source test begin
  [[ $selection == "  " || $selection == *" $name "* ]] || return 0
  case $engine in
    gloo) test="$build/process_trained_gloo" source="$here/../gloo/trained.cpp" ;;
    *) test="$build/trained_$engine" source="$here/trained.cpp" ;;
  esac
  if [[ ! -x $test ]]; then
    say "skipped: there is no $test"
    skipped=$((skipped + 1))
    return 0
  fi
  tree="$scratch/$name"
  rm -rf "$tree"
  mkdir -p "$tree"
  cp -r "$root/include" "$tree/include"
  sed -E -i -e "$change" "$tree/include/plait/backend/$header"
  if cmp -s "$root/include/plait/backend/$header" "$tree/include/plait/backend/$header"; then
    miss "the expression changes nothing in $header; write it anew"
    return 0
  fi
  if ! program "$engine" "$source" >"$tree/compiled" 2>&1; then
    miss "the changed header does not compile: $(grep -m1 error: "$tree/compiled")"
    return 0
  fi
  begin=$SECONDS
  : >"$tree/said"
  check "$engine" 2>/dev/null &
  local running=$!
  # After the first complaint the rest of the test is not needed; with some faults it would wait long.
  while ((SECONDS - begin < 240)) && kill -0 "$running" 2>/dev/null && ! grep -qE -e "$words" "$tree/said"; do
    sleep 0.2
  done
  end_session
  wait "$running" 2>/dev/null
  if grep -qE -e "$words" "$tree/said"; then
    say "found after $((SECONDS - begin)) s: $(grep -m1 -E -e "$words" "$tree/said" | cut -c1-160)"
    found=$((found + 1))
    rm -rf "$tree"
  else
    miss "nothing has complained in '$words'; see $tree/said"
  fi
}

# Faults in code that both libraries of MPI share are planted for one library.
mpi=openmpi
[[ -x $build/trained_openmpi ]] || mpi=mpich

for engine in gloo "$mpi"; do
  mutant "start_$engine" "$engine" process/start_check.hpp \
    's/^( *)if \(std::strcmp\(mesh.data\(\), other.mesh.data\(\)\) != 0\)/\1if (false)/' \
    "the mesh of the plan"
done
mutant sigpipe gloo gloo/gloo_connections.hpp 's/if \(is_ours_\) ::signal\(SIGPIPE, SIG_IGN\);//' \
  "exit code 141 instead of 1"
mutant "deadline_$mpi" "$mpi" process/watchdog.hpp 's/until <= none \|\| now\(\) < until/until >= none/' \
  "has waited 5000 ms for rank 1 on host .* is not said 1 times"
mutant deadline_gloo gloo gloo/gloo_group.hpp 's/(end_ = .*now\(\) \+ )with_->timeout;/\1std::chrono::hours{24};/' \
  "is stopped .*exit code 142 instead of 1"
mutant start_deadline_gloo gloo gloo/gloo_rendezvous.hpp \
  's/(end_\(.*now\(\) \+ )timeout\)/\1std::chrono::hours{24})/' "a rank never starts: .*exit code 142 instead of 1"
mutant first_wait gloo process/processes.hpp 's/set_timeout\(start_timeout\)/set_timeout(std::chrono::hours{24})/' \
  "a rank never starts: .*exit code 142 instead of 1"
reversed='s/for \(int i = 0; i < groups\.sets\(\)\.size\(\); \+\+i\)/for (int i, j = 0, n = groups.sets().size(); j < n \&\& (i = here.rank == 1 ? n - 1 - j : j, true); ++j)/
  s/^( *)(rank_type handle\()/\1if (here.rank == 1) std::reverse(members.begin(), members.end());\n\1\2/'
for engine in gloo "$mpi"; do
  mutant "order_$engine" "$engine" process/processes.hpp "$reversed" "exit code"
done

printf 'mutants.sh: %d found, %d missed, %d skipped\n' "$found" "$missed" "$skipped"
((missed == 0))
