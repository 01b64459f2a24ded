#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Breaks the flight record in a copy of the tree, and expects that its tests fail. It is not a ctest.
#   flight_mutants.sh
# Under Gloo only; the compilation of each mutant takes a minute or two.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT
cp -r include tests scripts "$copy"
cd "$copy" || exit 1
process=include/plait/backend/process
survivors=0
# mutant NAME FILE SED: none is the tree as it is.
mutant() {
  cp "$2" saved
  sed -i -E "$3" "$2"
  if [[ $1 != none ]] && cmp -s saved "$2"; then echo "$1: changes nothing"; survivors=1; fi
  "${CXX:-g++}" -std=c++20 -O0 -Iinclude -Itests tests/backend/gloo/trained.cpp -o trained -lgloo -lcrypto -pthread &&
    "${CXX:-g++}" -std=c++20 -O0 -Iinclude tests/backend/process_flight_ring_test.cpp -o ring -lgtest -lgtest_main -pthread ||
    { echo "$1: does not compile"; survivors=1; }
  local found=""
  ./ring >ring.log 2>&1 || found="the unit test"
  timeout -k 1 100 tests/backend/process/flight.sh scripts/flight scratch gloo - "$PWD/trained" >job.log 2>&1 || found+=" jobs"
  echo "$1: ${found:-not found}"
  [[ $1 == none ]] && { [[ -z $found ]] || { cat job.log; survivors=1; }; }
  [[ $1 == none || -n $found ]] || survivors=1
  cp saved "$2"
}
mutant none "$process/flight_ring.hpp" ''
mutant "a private copy, written nowhere" include/plait/core/shared_file.hpp 's/MAP_SHARED/MAP_PRIVATE/'
mutant "no beat" "$process/flight_record.hpp" 's/^ *ring_->beat\(\);/;/'
mutant "gaps are not kept" "$process/flight_ring.hpp" 's/time - last > long_gap_ns/false/'
mutant "no beat at the end" "$process/flight_ring.hpp" 's/^ *beat\(\);  \/\/.*//'
mutant "the record is not removed" "$process/flight_record.hpp" 's/^ *file_->remove\(\);//'
mutant "no text of an exception" "$process/flight_ring.hpp" 's/put\(header_->text, text\);//'
mutant "links are followed" include/plait/core/shared_file.hpp 's/O_DIRECTORY \| O_NOFOLLOW/O_DIRECTORY/'
mutant "no room is taken" include/plait/core/shared_file.hpp 's/::posix_fallocate\((.*), 0, (.*)\);/::ftruncate(\1, \2);/'
mutant "no end of calls" "$process/process_communicator.hpp" 's/^ *log_\.end\(\);//'
((survivors == 0))
