#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Benchmarks are built by few: here the compiler reads each that runs on processors, and warns as for tests.
#   compile.sh COMPILER
# Those on Google Benchmark are left out where that is missing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
read_by_compiler() {
  "$1" -std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror -Iinclude -Iexamples -Ibenchmarks "$2" && return
  echo "compile.sh: $2 does not compile"
  return 1
}
export -f read_by_compiler
sources=(benchmarks/steps/*.cpp benchmarks/processes/{measure,overlap,prefetch,waiting}.cpp)
if "$1" -E -x c++ -include benchmark/benchmark.h /dev/null >/dev/null 2>&1; then sources+=(benchmarks/*_benchmark.cpp)
else echo "without Google Benchmark's: they are not read"
fi
printf '%s\0' "${sources[@]}" | xargs -0 -P 2 -I {} bash -c 'read_by_compiler "$@"' - "$1" {}
