#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_two_ways.sh COMPILER INCLUDE RUNTIME FOLDER [FLAGS...]: files of a program are all header-only or all linked to
# one runtime that was compiled like them; linkers refuse anything else by a name that says why.
set -euo pipefail
compiler="$1" include="$2" runtime="$3" folder="$4"
flags=("${@:5}")
mkdir -p "$folder"
cd "$folder"

cat >first.cpp <<'CODE'
#include <plait/core/quote.hpp>
#include <string>
std::string of_second();
int main() { return plait::detail::in_quotes("a") + of_second() == "'a''b'" ? 0 : 1; }
CODE
cat >second.cpp <<'CODE'
#include <plait/core/quote.hpp>
#include <string>
std::string of_second() { return plait::detail::in_quotes("b"); }
CODE
compile() { "$compiler" "${flags[@]}" -I "$include" -c "$1.cpp" -o "$1_$2.o" "${@:3}"; }
for file in first second; do
  compile $file header_only -std=c++20
  compile $file runtime -std=c++20 -DPLAIT_HEADER_ONLY=0
done
compile first newer -std=c++23 -DPLAIT_HEADER_ONLY=0
compile first debug -std=c++20 -DPLAIT_HEADER_ONLY=0 -D_GLIBCXX_DEBUG

link() { "$compiler" "${flags[@]}" "$@" -pthread -o program; }
link first_header_only.o second_header_only.o && ./program
link first_runtime.o second_runtime.o "$runtime" && ./program

# Two shared libraries of one program, each header-only.
for file in second third; do
  sed "s/of_second/of_$file/" second.cpp >$file.so.cpp
  "$compiler" "${flags[@]}" -std=c++20 -I "$include" -fPIC -shared $file.so.cpp -o lib$file.so
done
sed 's/of_second() ==/of_second() + of_third() ==/; s/^std::string of_second/std::string of_third();\n&/' first.cpp |
  sed "s/'a''b'/'a''b''b'/" >both.cpp
"$compiler" "${flags[@]}" -std=c++20 -I "$include" both.cpp -L . -lsecond -lthird -Wl,-rpath,"$PWD" -pthread -o both
./both

# refused <name> <file>...
refused() {
  if link "${@:2}" "$runtime" >output 2>&1; then
    echo "linked, and should not: ${*:2}"
    exit 1
  fi
  if ! grep -q "$1" output; then
    cat output
    echo "does not say $1: ${*:2}"
    exit 1
  fi
}
# Code that depends on the library of matrix products, or on the processor, belongs to the program. `fill` is allowed:
# it gives the same bits everywhere.
if nm --demangle --defined-only "$runtime" | grep 'plait::host_maths' | grep -v 'host_maths::fill<'; then
  echo "the runtime has parts of plait::host_maths, which must be compiled as the program is"
  exit 1
fi

mixed=plait_header_only_file_in_a_program_with_plait_runtime
refused $mixed first_header_only.o second_runtime.o
refused $mixed first_runtime.o second_header_only.o
refused 'plait_runtime_of_cpp_202[1-9]' first_newer.o second_runtime.o
refused 'plait_runtime_of_cpp_202002L_abi_[01]_debug' first_debug.o second_runtime.o
