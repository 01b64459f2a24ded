// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace plait_test {

/// Returns the line with this name from a file in tests/oracle/ with numbers of another library. A
/// test fails if there is none.
inline std::vector<double> stored_numbers(std::string const& file_name, std::string const& name) {
  char const* const tests = std::getenv("PLAIT_TESTS");
  std::ifstream file(std::string(tests == nullptr ? "tests" : tests) + "/oracle/" + file_name);
  std::string line, word;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    if (!(words >> word) || word != name) continue;
    std::vector<double> out;
    for (double value = 0; words >> value;) out.push_back(value);
    return out;
  }
  ADD_FAILURE() << "no numbers of " << name;
  return {};
}

}  // namespace plait_test
