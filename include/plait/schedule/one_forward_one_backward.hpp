// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "plait/core/namespaces.hpp"
#include "plait/schedule/operation.hpp"
#include "plait/schedule/schedule.hpp"

namespace plait {

/// A few forwards to fill the pipeline, then one forward and one backward in turn (1F1B). It is as
/// fast as `gpipe`, and the number of kept activations does not grow with the number of
/// microbatches: on 4 stages, stage 0 keeps 4 sets for any number of microbatches.
///
/// On one stage this is the serial run: forward 0, backward 0, forward 1, backward 1, ...
///
/// Cost:    bubble (stages - 1) * (forward + backward) time; min(stages - stage, microbatches) sets
///          of saved activations.
/// Source:  Narayanan et al., "PipeDream", 2019, and "Memory-efficient pipeline-parallel DNN
///          training" (the variant that empties the pipeline after each step), 2021.
struct one_forward_one_backward {
  using concept_tag = ext::schedule_tag;
  static constexpr std::string_view name = "one_forward_one_backward";

  /// Returns the computations of `stage`, in order; fewer microbatches than stages are allowed.
  [[nodiscard]] static constexpr std::vector<ext::scheduled_work> order(int stages, int stage,
                                                                        int microbatches) {
    int const warm_up = std::min(stages - 1 - stage, microbatches);
    std::vector<ext::scheduled_work> list;
    list.reserve(2 * static_cast<std::size_t>(microbatches));
    for (int i = 0; i < warm_up; ++i) list.push_back({ext::work::forward, i});
    for (int i = 0; i < microbatches; ++i) {
      if (warm_up + i < microbatches) list.push_back({ext::work::forward, warm_up + i});
      list.push_back({ext::work::backward, i});
    }
    return list;
  }

  /// Returns the greatest number of microbatches on `stage` that are between their forward and
  /// their backward.
  [[nodiscard]] static constexpr int peak_activations(int stages, int stage, int microbatches) {
    return std::min(stages - stage, microbatches);
  }
};

static_assert(ext::schedule<one_forward_one_backward>);

template <>
inline constexpr bool detail::is_proved_by_tests<one_forward_one_backward> = true;

}  // namespace plait
