#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Not a ctest: plants faults into how ranks over Gloo know each other, in a copy of the tree, and demands that the
# unit test which is named complains in its words. scripts/soak runs it.
#   challenge_mutants.sh [NAME...]
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT
cp -r include tests "$copy"
cd "$copy" || exit 1
selection=" $* " failures=0
# mutant NAME HEADER TEST SED WORDS
mutant() {
  local name="$1" header="include/plait/backend/gloo/$2.hpp" program="tests/backend/gloo/$3_test.cpp"
  [[ $selection == "  " || $selection == *" $name "* ]] || return 0
  cp "$header" saved
  sed -i -E "$4" "$header"
  if cmp -s saved "$header"; then
    echo "$name: the expression changes nothing in $header; write it anew"
    failures=$((failures + 1))
  elif ! "${CXX:-g++}" -std=c++20 -O1 -Iinclude -Itests "$program" -o test -lgtest -lgtest_main -lgloo -lcrypto \
    -pthread >said 2>&1; then
    echo "$name: does not compile: $(grep -m1 error: said)"
    failures=$((failures + 1))
  else
    timeout -k 1 100 ./test >said 2>&1
    if grep -qE -e "$5" said; then
      echo "$name: found: $(grep -m1 -E -e "$5" said | cut -c 1-120)"
    else
      echo "$name: nothing has complained in '$5'; $(tail -n 3 said)"
      failures=$((failures + 1))
    fi
  fi
  cp saved "$header"
}
mutant another_job gloo_challenge gloo_challenge 's/add\(of_.rendezvous\);//' 'another job|FAILED.*NothingThatWasHeard'
mutant replay gloo_challenge gloo_challenge 's/add\(question\);//' 'an answer to an older question'
mutant own_number gloo_challenge gloo_challenge 's/add\(answer.substr\(0, .*//' 'FAILED.*(EachBit|AProofFromElsewhere|AnAnswer)'
mutant another_rank gloo_challenge gloo_challenge 's/add\(std::to_string\(member\)\);//' 'at the same address'
mutant address gloo_challenge gloo_challenge 's/add\(addresses_\[.*//' 'another address'
mutant reflection gloo_challenge gloo_challenge 's/add\(what\);//' 'reflected'
mutant key gloo_challenge gloo_challenge 's/hmac_sha256\(of_.key, text\)/hmac_sha256("", text)/' 'another key'
mutant sizes_alone gloo_challenge gloo_challenge 's/one.size\(\) == other.size\(\) \&\&/true ||/' 'another job'
mutant lower_rank gloo_challenge gloo_challenge 's/ \|\| static_cast<int>\(from\) <= rank_//' 'a lower rank|its own'
mutant a_second_answer gloo_listener gloo_listener 's/ \|\| !is_missing\(\*member\)//' 'FAILED.*ASecondAnswer|answer\(other\)'
mutant no_proof gloo_listener gloo_listener 's/if \(!challenge.proves\(.*\)\) return outcome::wrong;//' 'has taken it for rank 0'
mutant too_much_is_read gloo_listener gloo_listener 's/one.read.resize\(one.wanted\(\)\);/one.read.resize(one.wanted() + 1);/' 'FAILED.*WhatComesBehind'
mutant thrown_in_gloos_thread gloo_pair gloo_pair 's/signalException\("bytes have.*/throw;/' 'Gloo.s|terminate|none of'
((failures == 0))
