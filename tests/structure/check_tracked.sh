#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reports each tracked file that does not belong: files that may not be in the root, and files that are not text.
#   check_tracked.sh ROOT
set -euo pipefail
cd "$1"

in_root=(.ci .clang-format .gitignore CHANGELOG.md CMakeLists.txt CMakePresets.json LICENSE README.md
  benchmarks cmake docs examples include packaging scripts tests)
# Files that programs read byte by byte: inputs of the fuzzers, and files as written by other libraries.
not_text='^tests/(fuzz/corpus/.*|checkpoint/fixtures/.*[.]safetensors|data/pictures/.*[.](png|jpg))$'

if [[ "$(git rev-parse --show-toplevel 2>&1)" != "$(pwd -P)" ]]; then
  echo "skipped: $1 is not a checkout that git reads"
  exit 77
fi

code=0
report() {
  echo "$1" >&2
  code=1
}
while IFS= read -r name; do
  [[ " ${in_root[*]} " == *" $name "* ]] ||
    report "$name: may not stand in the root; what may is listed in tests/structure/check_tracked.sh"
done < <(git -c core.quotePath=off ls-files | cut -d/ -f1 | sort -u)
while IFS= read -r name; do
  [[ $name =~ $not_text ]] || report "$name: is not text; keep what makes it or where it comes from instead"
done < <(git -c core.quotePath=off ls-files --eol | sed -n 's#^i/-text.*\t##p')
exit $code
