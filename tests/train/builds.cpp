// SPDX-License-Identifier: Apache-2.0
// Prints the losses of twenty steps, one for each line, in float and in double. builds.py compares
// the output of builds for several processors and with several libraries of matrix products.
#include <cstdio>
#include <string_view>

#include "train/small_gpt.hpp"

template <class Job>
void print_losses(char const* name) {
  auto const text = small_gpt::text();
  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, plait::adamw{.learning_rate = 3e-3}, {.clip = 1.0});
    auto batches = plait::batches(text, plait::global_batch<8>{}, rank, {.epochs = 0});
    for (std::uint64_t step = 0; step < 20; ++step) {
      auto const report = trainer.step(batches.at(step));
      if (rank.is_root()) std::printf("%s %.17g\n", name, report.loss);
    }
  });
}

int main(int, char** words) {
  std::string_view const build = words[0];
#if defined(__x86_64__)
  if ((build.ends_with("v3") && !__builtin_cpu_supports("avx2")) ||
      (build.ends_with("v3") && !__builtin_cpu_supports("fma")))
    return 77;
#endif
  std::fprintf(stderr, "%s\n", plait::host_maths::kind().c_str());
  print_losses<small_gpt::job<plait::data_parallel<2>, float>>("float");
  print_losses<small_gpt::job<plait::data_parallel<2>, double>>("double");
}
