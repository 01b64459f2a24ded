// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/run/launch.hpp"
#include "plait/train/trainer.hpp"

namespace nn_testing {

/// One global batch: for each sample its tokens and labels, position by position.
struct token_batch {
  std::size_t samples = 0, sequence = 0;
  std::vector<std::int32_t> tokens, labels;  // (samples, sequence)
};

struct outcome {
  double loss = 0;
  double labels = 0;
  std::map<std::string, std::vector<double>> gradients;
};

/// Loss and reduced, whole gradients of a batch under a job, in `microbatches` per data rank.
template <class Job>
outcome train_once(token_batch const& all, int microbatches, std::uint64_t seed = 5) {
  outcome out;
  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    auto const ranks = static_cast<std::size_t>(rank.grid().size(plait::axis::data));
    std::size_t const here = all.samples / ranks;
    std::size_t const each = here / static_cast<std::size_t>(microbatches);
    std::size_t const first =
        here * static_cast<std::size_t>(rank.coordinates().along(plait::axis::data));
    // (microbatch, position, sample)
    std::vector<std::int32_t> tokens(here * all.sequence), labels(tokens.size());
    for (std::size_t s = 0; s < here; ++s)
      for (std::size_t p = 0; p < all.sequence; ++p) {
        std::size_t const to = s / each * each * all.sequence + p * each + s % each;
        std::size_t const from = (first + s) * all.sequence + p;
        tokens[to] = all.tokens[from];
        labels[to] = all.labels[from];
      }
    plait::device_batch<plait::ext::host_memory> batch;
    batch.samples = each;
    batch.sequence = all.sequence;
    batch.microbatches = microbatches;
    batch.first_sample = first;
    batch.inputs = reinterpret_cast<std::byte*>(tokens.data());
    batch.targets = reinterpret_cast<std::byte*>(labels.data());
    batch.input_stride_bytes = batch.target_stride_bytes =
        each * all.sequence * sizeof(std::int32_t);
    batch.input = {plait::ext::value_kind::tokens, 1};
    batch.host_targets = labels.data();

    auto trainer = plait::trainer<Job>(rank, plait::sgd{}, {.seed = seed});
    auto const report = trainer.gradients_of(batch);
    if (rank.is_root()) {
      out.loss = report.loss;
      out.labels = report.labels;
    }
    trainer.export_gradients([&](std::string const& name, plait::ext::parameter_info const&,
                                 std::span<double const> values) {
      out.gradients[name].assign(values.begin(), values.end());
    });
  });
  return out;
}

}  // namespace nn_testing
