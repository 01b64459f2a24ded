// SPDX-License-Identifier: Apache-2.0
// For a unit of several targets, which lists them: a program is the target that has its name.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "fuzz/fuzzing.hpp"

namespace fuzzing {

struct target {
  std::string_view name;
  int (*run)(std::uint8_t const*, std::size_t);
};

/// All of the unit, which defines it.
std::span<target const> targets();

inline target const* chosen = nullptr;

}  // namespace fuzzing

extern "C" int LLVMFuzzerInitialize(int*, char*** arguments) {
  std::string_view const program = **arguments;
  for (auto const& target : fuzzing::targets())
    if (target.name == program.substr(program.rfind('/') + 1)) fuzzing::chosen = &target;
  if (fuzzing::chosen != nullptr) return 0;
  std::fprintf(stderr, "no target has the name of the program '%s'\n", **arguments);
  std::exit(2);
}

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  return fuzzing::chosen->run(data, size);
}
