#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plants faults into checkpoints, one after another, and demands that a test finds each.
#   mutants.sh SCRATCH_DIR [NAME...]
# For people who change checkpoints: each fault takes up to half a minute to compile. Each fsync that is left out, and
# three that follow the rename, are cases of tests/checkpoint/checkpoint_folder_test.cpp.
set -uo pipefail
export LC_ALL=C OPENBLAS_NUM_THREADS=1
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
scratch="$(realpath -m "$1")"
shift
selection=" $* "
mkdir -p "$scratch"
found=0 missed=0

# mutant NAME HEADER SED TEST: the test fails when the header, or the .ipp next to it, is changed.
mutant() {
  local name="$1" header="$2" change="$3" test="$4" tree="$scratch/$1"
  [[ $selection == "  " || $selection == *" $name "* ]] || return 0
  rm -rf "$tree"
  mkdir -p "$tree"
  cp -r "$root/include" "$tree/include"
  sed -i -E "$change" "$tree/include/plait/${header%.hpp}".?pp
  if diff -rq "$root/include" "$tree/include" >/dev/null; then
    echo "mutants.sh: $name: the fault cannot be planted any more" >&2
    missed=$((missed + 1))
  elif ! "${CXX:-g++}" -std=c++20 -O0 -DPLAIT_USE_CBLAS=1 -DPLAIT_USE_OPENBLAS=1 "-I$tree/include" "-I$root/tests" \
    -isystem /usr/include/x86_64-linux-gnu/openblas-pthread "$root/tests/${test}_test.cpp" -o "$tree/test" \
    -lgtest -lgtest_main -lopenblas -lisal -pthread 2>"$tree/said"; then
    echo "mutants.sh: $name: does not compile: $(tail -n 3 "$tree/said")" >&2
    missed=$((missed + 1))
  else
    PLAIT_TESTS="$root/tests" timeout 600 "$tree/test" >"$tree/said" 2>&1
    local code=$? by
    by="$(sed -nE 's/^\[  FAILED  \] ([^ ,]*).*/\1/p' "$tree/said" | head -n 1)"
    # A program that ends in the middle of a test has not reached that line.
    [[ -n $by ]] || by="$(sed -nE 's/^\[ RUN      \] //p' "$tree/said" | tail -n 1)"
    if ((code == 0)); then
      echo "mutants.sh: $name: no test of $test finds it" >&2
      missed=$((missed + 1))
    elif ((code == 124)); then
      echo "mutants.sh: $name: $by does not end within 600 s" >&2
      missed=$((missed + 1))
    else
      echo "mutants.sh: $name: found by $by"
      found=$((found + 1))
    fi
  fi
  rm -rf "$tree/include" "$tree/test"
}

mutant rename_before_fsync checkpoint/checkpoint_folder.hpp \
  's/^ +must\(disk_\.sync_folder\(from\)\);$//' checkpoint/checkpoint_folder
mutant rectangle_twice train/trainer_state.hpp \
  's/return holds_the_one_copy\(saved_placements\(entry\.stored\), of_\.rank\.place\(\)\);/return \&entry != nullptr;/' train/trainer_state
mutant share_of_others train/trainer_state.hpp \
  's/saved\.axes_with\(shard<dim::elements>\)/axis_set{}/' \
  train/trainer_state
mutant padding_written plan/sharding/parameter_blocks.hpp \
  's/with_padding \? info : info\.unpadded\(\)/info/' plan/parameter_blocks
mutant master_value_dropped train/trainer_state.hpp \
  's/if \(kind == 0\) return of_\.store\.parameters_of\(block\);/if (kind == 0) { auto* const at = of_.store.parameters_of(block); for (std::size_t i = 0; i < block.elements.count; ++i) at[i] = static_cast<element>(static_cast<typename Parts::job_type::element>(at[i])); return at; }/' \
  train/trainer_state
mutant state_dropped train/trainer_state.hpp \
  's/kind - 1\) \* of_\.store\.owned_count\(\)/kind - kind) * of_.store.owned_count()/' train/trainer_state
mutant order_restarted checkpoint/checkpoints.hpp \
  's/go_on_at\(\{manifest->step, batch\}\)/go_on_at({manifest->step, 0})/' checkpoint/checkpoints
mutant step_restarted checkpoint/checkpoints.hpp \
  's/state_->go_on_at\(\{manifest->step, batch\}\);//' checkpoint/checkpoints
mutant crc_not_compared checkpoint/state_reader.hpp \
  's/if \(crc != block\.crc\)/if (false)/' checkpoint/checkpoints
mutant type_not_compared checkpoint/state_reader.hpp \
  's/if \(to_string\(found\.type\) != type \|\| /if (/' checkpoint/checkpoints
mutant settings_not_compared checkpoint/checkpoints.hpp \
  's/auto const found = ext::differences\($/std::vector<std::string> const found; (void)ext::differences(/' checkpoint/checkpoints
mutant mark_not_checked checkpoint/counted_checkpoints.hpp \
  's/return name\.lease == 0 \|\| !list_ \|\| name\.lease == number_ \|\|/return name.lease >= 0 ||/' checkpoint/folder_lease
mutant owner_not_read_again checkpoint/folder_lease.hpp \
  's/if \(now > number_\) refuse_lost/if (now < 0) refuse_lost/' checkpoint/folder_lease
mutant commit_not_confirmed checkpoint/checkpoint_folder.hpp \
  '/Who has taken the folder since/{n;d}' checkpoint/folder_lease
mutant final_name_used_twice checkpoint/checkpoint_folder.hpp \
  's/begun\.save = \+\+saves_/begun.save = 1/' checkpoint/folder_lease
mutant others_cleaned checkpoint/checkpoint_folder.hpp \
  's/return lease <= lease_\.number\(\);/return lease >= 0;/' checkpoint/folder_lease

echo "$found found, $missed not"
((missed == 0))
