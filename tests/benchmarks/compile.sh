#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Few people build the benchmarks, so this test compiles each that runs on processors, with the warnings of tests.
#   compile.sh COMPILER [FLAG]...
# It skips benchmarks that need Google Benchmark if that is missing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
read_by_compiler() {
  local source="$1"
  shift
  "$@" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Iinclude -Iexamples -Ibenchmarks "$source" &&
    return
  echo "compile.sh: $source does not compile"
  return 1
}
export -f read_by_compiler
shopt -s extglob
sources=(benchmarks/steps/*.cpp benchmarks/processes/!(raw_*).cpp)
if "$1" -E -x c++ -include benchmark/benchmark.h /dev/null >/dev/null 2>&1; then sources+=(benchmarks/*_benchmark.cpp)
else echo "Google Benchmark is missing; its benchmarks are not read"
fi
printf '%s\0' "${sources[@]}" | xargs -0 -P 2 -I {} bash -c 'read_by_compiler "$@"' - {} "$@"
