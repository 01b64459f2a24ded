// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <plait/plait.hpp>

#include "steps/turns.hpp"

/// Trains a job on threads, a few steps in each turn.
template <class Job>
void train_in_turns(auto const& data, auto optimizer, std::size_t batch, int microbatches) {
  int steps = 0;  // in this turn; rank 0 writes it between two barriers
  plait::threads const backend{.options = {.timeout = std::chrono::hours(1)}};
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, optimizer, {.seed = 1});
    auto batches = plait::batches(data, plait::global_batch<>{batch}, rank,
                                  {.seed = 1, .epochs = 0, .microbatches = microbatches});
    std::uint64_t next = 0;
    for (;;) {
      if (rank.is_root()) steps = turns::next(plait::host_maths::kind_of_products());
      rank.world().barrier();
      if (steps == 0) return;
      double loss = 0;
      for (int step = 0; step < steps; ++step) {
        rank.world().barrier();
        auto const begin = std::chrono::steady_clock::now();
        loss = trainer.step(batches.at(next++)).loss;
        rank.world().barrier();
        if (rank.is_root()) turns::step_took(std::chrono::steady_clock::now() - begin);
      }
      if (rank.is_root()) turns::end(loss);
    }
  });
}
