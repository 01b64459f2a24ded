// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

// How a program takes its turn among others: `scripts/benchmark` keeps all of them alive, writes to
// one how many steps it shall do, and reads how long each took.
namespace turns {

/// The steps of the next turn; 0 when there is no other. The first call says that all is set up,
/// and by which products.
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

/// Ends the turn; `loss` is that of its last step, for whoever compares programs.
inline void end(double loss) {
  std::printf("%.9g\n", loss);
  std::fflush(stdout);
}

}  // namespace turns
