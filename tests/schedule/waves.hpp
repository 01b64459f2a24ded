// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "plait/plait.hpp"

// Schedules whose chunks go forth and back, as plait has none of its own yet.
namespace plait_test {

using namespace plait::ext;

// example-begin wave
/// All microbatches through the chunks of a stage, forth and back.
struct wave_breadth_first {
  using concept_tag = schedule_tag;
  static constexpr std::string_view name = "wave_breadth_first";
  static constexpr int chunks = 2;
  static constexpr auto placement = chunk_placement::wave;

  static constexpr std::vector<scheduled_work> order(int, int, int microbatches) {
    std::vector<scheduled_work> out;
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int m = 0; m < microbatches; ++m) out.push_back({work::forward, m, chunk});
    for (int chunk = chunks - 1; chunk >= 0; --chunk)
      for (int m = 0; m < microbatches; ++m) out.push_back({work::backward, m, chunk});
    return out;
  }
  static constexpr int peak_activations(int, int, int microbatches) {
    return chunks * microbatches;
  }
};
// example-end

/// Backward passes in halves, of which the second fills the times in which a stage would be idle.
///
/// Source: Qi, Wan, Huang, Lin, "Zero bubble pipeline parallelism", 2024 (ZB-V).
struct wave_of_halves {
  using concept_tag = schedule_tag;
  static constexpr std::string_view name = "wave_of_halves";
  static constexpr int chunks = 2;
  static constexpr bool splits_backward = true;
  static constexpr auto placement = chunk_placement::wave;

  static constexpr std::vector<scheduled_work> order(int stages, int stage, int microbatches) {
    int const all = std::max(2 * stages - 1, microbatches);
    std::array<std::array<int, 2>, 3> done{};  // counts of F, B and W, in each chunk
    std::vector<scheduled_work> out;
    constexpr work kinds[]{work::forward, work::backward_input, work::backward_parameters};
    auto const add = [&](int kind, int chunk) {
      int const m = done[std::size_t(kind)][std::size_t(chunk)]++;
      if (m < microbatches) out.push_back({kinds[kind], m, chunk});
    };
    auto const times = [](int count, auto what) {
      for (int i = 0; i < count; ++i) what();
    };
    constexpr int f = 0, b = 1, w = 2;
    times(2 * (stages - stage) - 1, [&] { add(f, 0); });
    times(stage, [&] { add(f, 1), add(f, 0); });
    times(stages - stage, [&] { add(f, 1), add(b, 1), add(w, 1); });
    while (done[f][0] < all || done[f][1] < all) {
      if (done[f][0] < all) add(f, 0);
      add(b, 0), add(w, 0), add(f, 1), add(b, 1), add(w, 1);
    }
    times(stage, [&] { add(b, 0), add(b, 1); });
    times(stages - stage, [&] { add(b, 0), add(w, 0); });
    while (done[w][1] < done[b][1]) add(w, 1);
    while (done[w][0] < done[b][0]) add(w, 0);
    return out;
  }
  static constexpr int peak_activations(int stages, int stage, int microbatches) {
    int now = 0, most = 0;
    for (auto const& one : order(stages, stage, microbatches)) {
      if (one.kind == work::forward) most = std::max(most, ++now);
      if (one.kind == work::backward_parameters) --now;
    }
    return most;
  }
};

static_assert(schedule<wave_breadth_first> && schedule<wave_of_halves>);

}  // namespace plait_test
