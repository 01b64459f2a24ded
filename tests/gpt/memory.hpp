// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "gpt/memory_trials.hpp"
#include "testing/guarded_threads.hpp"
#include "train_gpt/job.hpp"

// All actions of train_gpt and a trainer, under one plan, in arenas that end at an inaccessible
// page.
namespace memory {

/// A plan of train_gpt: reproducible if it leaves the number of data ranks to the launch.
template <class Plan>
using policy_of = std::conditional_t<plait::ext::mesh_of<Plan>.is_complete(), Plan,
                                     plait::hybrid<Plan, plait::reproducible<12>>>;

template <class Size, class Job>
void run(plait::byte_text const& text, int data_ranks) {
  plait::launch<Job>(plait_test::guarded_threads(data_ranks), [&](auto& rank) {
    auto trainer =
        plait::trainer<Job>(rank, plait::adamw{.learning_rate = 1e-3}, {.seed = 4, .clip = 1.0});
    auto batches = plait::batches(text, plait::global_batch<>{24}, rank, {.epochs = 0});
    for (std::uint64_t step = 0; step < 2; ++step) trainer.step(batches.at(step));
    trainer.evaluate(batches.at(2));
    (void)trainer.predict(batches.at(2));
    if (data_ranks == 0 || Job::plan_type::slices % data_ranks == 0)
      (void)trainer.predict(batches.at(2), plait::predicted::of_all);
    // The last of two batches is partial.
    auto const few =
        plait::byte_text::from_text(std::string(30 * Size::sequence + 1, 'x'), Size::sequence);
    (void)trainer.evaluate(few, plait::global_batch<>{24}, plait::measures::accuracy{});
    (void)train_gpt::generate<Size>(trainer, text, 2, 1);
    auto const ignore = [](auto const&...) {};
    trainer.export_parameters(ignore);
    trainer.gradients_of(batches.at(3));
    trainer.export_gradients(ignore);
  });
}

template <class Size, class Job>
registration enter(char const* plan) {
  return registration({plan, Size::sequence, !Job::plan_type::grid.is_complete(), run<Size, Job>});
}

}  // namespace memory
