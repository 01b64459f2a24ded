// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>

namespace plait_benchmark {

using numbers = std::map<std::string, int>;

/// Calls `measure` with the numbers of the command line, such as "pairs=40", in place of those in
/// `given`. The exit code is 2, after the usage, for a name that `given` lacks and for a number
/// that `is_right` refuses, and 1 after an exception.
template <class IsRight, class Measure>
int run_with_numbers(int argc, char** argv, numbers given, char const* usage, IsRight is_right,
                     Measure measure) {
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    auto const equals = word.find('=');
    auto const found = given.find(word.substr(0, equals));
    int const value = equals == std::string::npos ? -1 : std::atoi(word.c_str() + equals + 1);
    if (found == given.end() || value < 0 || !is_right(found->first, value)) {
      std::fprintf(stderr, "usage: %s\n", usage);
      return 2;
    }
    found->second = value;
  }
  try {
    measure(given);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}

}  // namespace plait_benchmark
