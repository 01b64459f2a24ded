#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Not a ctest: has batch_norm follow its running statistics in forward, as PyTorch does, in a copy of the tree, and
# expects that tests of three files fail: a step that is not done, several microbatches, a forward that runs again and
# a job that loses a rank within a step change them twice.
#   buffer_mutants.sh
# Three tests are compiled twice, two or three minutes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT
cp -r include tests examples "$copy"
cd "$copy" || exit 1
layer=include/plait/nn/batch_norm.hpp
survivors=0
# tries NAME: runs the tests, of which each that fails is named.
tries() {
  local found=0 file
  for file in checkpoint/buffers nn/image_plans train/state_transfer; do
    "${CXX:-g++}" -std=c++20 -O0 -Iinclude -Itests "tests/${file}_test.cpp" -o test -lgtest -lgtest_main -lisal -pthread ||
      { echo "$1: $file does not compile"; survivors=1; continue; }
    timeout 200 ./test >log 2>&1 || { found=$((found + 1)); echo "$1: found by" $(sed -n 's/^\[  FAILED  \] \([A-Za-z.]*\) (.*/\1/p' log); }
  done
  case "$1" in
    none) [[ $found == 0 ]] || survivors=1 ;;
    *) [[ $found == 3 ]] || { echo "$1: $found of 3 files found it"; survivors=1; } ;;
  esac
}
tries none
python3 - "$layer" <<'END' || survivors=1
import sys
path = sys.argv[1]
text = open(path).read()
def replaced(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)
text = replaced(text, "    ops.accumulate_statistics(sets, l.saved[statistics{}], l.dp[running_mean{}],\n"
                      "                              l.dp[running_var{}], epsilon);\n", "")
text = replaced(text, "    else if constexpr (Options.group > 0)\n      ops.normalize_sets(sets, l.x, l.p[weight{}], l.p[bias{}], l.y, l.saved[statistics{}],\n"
                      "                         epsilon);\n",
"""    else if constexpr (Options.group > 0) {
      ops.normalize_sets(sets, l.x, l.p[weight{}], l.p[bias{}], l.y, l.saved[statistics{}], epsilon);
      auto const mean = l.p[running_mean{}], variance = l.p[running_var{}];
      auto const found = l.saved[statistics{}];
      auto follow = [](auto const* value, double by) {
        using number = std::remove_cvref_t<decltype(*value)>;
        auto& at = const_cast<number&>(*value);
        at = number(double(at) + 0.1 * (by - double(at)));
      };
      std::size_t const groups = l.context.present() / Options.group;
      for (std::size_t c = 0; c < mean.columns; ++c) {
        double middle = 0, spread = 0;
        for (std::size_t g = 0; g < groups; ++g) {
          double const inverse = double(found.data[2 * (g * mean.columns + c) + 1]);
          middle += double(found.data[2 * (g * mean.columns + c)]) / double(groups);
          double const count = double(Options.group * Image::map);
          spread += (1 / (inverse * inverse) - 1e-5) * count / (count - 1) / double(groups);
        }
        if (groups == 0) continue;
        follow(mean.data + c, middle);
        follow(variance.data + c, spread);
      }
    }
""")
open(path, "w").write(text)
END
tries "followed in forward"
((survivors == 0))
