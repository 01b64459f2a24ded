// SPDX-License-Identifier: Apache-2.0
// Runs the suite of communicators on ranks that are processes; each prints the errors that it
// found.
//   suite ENGINE RANKS ranked|library         all calls
//   suite ENGINE RANKS ranked|library NUMBER  one mistake, by its number in the suite
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "backend/process/engines.hpp"
#include "plait/backend/process/processes.hpp"
#include "plait/testing/communicator_suite.hpp"

int main(int count, char** words) {
  if (count < 4) return std::fputs("suite ENGINE RANKS ranked|library [NUMBER]\n", stderr), 2;
  try {
    bool const is_library = std::string(words[3]) == "library";
    int const ranks = std::atoi(words[2]);
    plait::processes const backend{.engine = plait_test::engines().at(words[1])(),
                                   .timeout = std::chrono::milliseconds{20'000},
                                   .start_timeout = std::chrono::milliseconds{20'000},
                                   .reduction = is_library ? plait::process_reduction::library
                                                           : plait::process_reduction::ranked};
    // MPI does not guarantee it.
    bool const keeps_nan = !is_library || std::string(words[1]) == "gloo";
    // The longest message is summed in pieces; one case with it is enough.
    std::size_t const longest = ranks == 2 && !is_library ? 300'007 : 30'011;
    auto const report =
        count > 4
            ? plait::testing::check_communicator_error(backend, std::atoi(words[4]), ranks)
            : plait::testing::check_communicators(backend, {.ranks = ranks,
                                                            .sizes = {0, 1, 3, 64, 1000, longest},
                                                            .rounds = 100,
                                                            .sums_in_rank_order = !is_library,
                                                            .maximum_keeps_nan = keeps_nan,
                                                            .errors = false});
    for (auto const& failure : report.failures) std::fprintf(stderr, "%s\n", failure.c_str());
    return report.passed() ? 0 : 1;
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "suite: %s\n", problem.what());
    return 1;
  }
}
