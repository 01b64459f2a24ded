// SPDX-License-Identifier: Apache-2.0
// Runs each linked plan; plans for any number of data ranks run on one, on two, and on five, some
// of which have more slices than others. The address sanitizer and guarded arenas end the program
// when memory is written past its end.
//   memory TEXT
#include <cstdio>
#include <exception>
#include <vector>

#include "gpt/memory_trials.hpp"

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: memory TEXT\n", stderr), 2;
  for (auto const& one : memory::trials())
    for (int const data_ranks : one.of_any_ranks ? std::vector{1, 2, 5} : std::vector{0}) {
      std::printf("%s", one.plan);
      if (data_ranks > 0) std::printf(" on %d data ranks", data_ranks);
      std::printf("\n");
      std::fflush(stdout);
      one.run(plait::byte_text::from_file(argv[1], one.sequence), data_ranks);
    }
  return memory::trials().empty() ? 1 : 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
