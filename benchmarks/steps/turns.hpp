// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

// The turns of a program among others: `scripts/benchmark` keeps all of them alive, writes to one
// the number of steps to do, and reads the time of each step.
namespace turns {

/// Returns the steps of the next turn, or 0 when there is no other. The first call reports that the
/// program is set up, and the library of its products.
inline int next(std::string const& products = "") {
  static bool const said = [&] {
    std::cout << "ready " << products << std::endl;
    return true;
  }();
  int steps = 0;
  return said && std::cin >> steps && steps > 0 ? steps : 0;
}

/// Milliseconds of one step.
inline void step_took(std::chrono::steady_clock::duration time) {
  std::printf("%.4f ", std::chrono::duration<double, std::milli>(time).count());
}

/// Ends the turn; `loss` is the loss of its last step, for comparisons of programs.
inline void end(double loss) {
  std::printf("%.9g\n", loss);
  std::fflush(stdout);
}

}  // namespace turns
