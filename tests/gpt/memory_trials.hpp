// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "plait/data/byte_text.hpp"

// The list by which the program that runs the plans knows them; they are compiled separately.
namespace memory {

/// One compiled plan.
struct trial {
  char const* plan = "";
  std::size_t sequence = 0;
  bool of_any_ranks = false;
  void (*run)(plait::byte_text const&, int data_ranks) = nullptr;
};

inline std::vector<trial>& trials() {
  static std::vector<trial> all;
  return all;
}

struct registration {
  explicit registration(trial const& one) { trials().push_back(one); }
};

}  // namespace memory
