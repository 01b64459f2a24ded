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

/// One forward and one backward in turn, after about twice as many initial forwards as
/// `one_forward_one_backward`. Each activation then has the time of one computation to reach the
/// next stage, which hides the latency of slow links.
///
/// Cost:    bubble (stages - 1) * (forward + backward) time; min(2 (stages - 1 - stage) + 1,
///          microbatches) sets of saved activations.
/// Source:  Zhuang et al., "On optimizing the communication of model parallelism", 2023.
struct eager_one_forward_one_backward {
  using concept_tag = ext::schedule_tag;
  static constexpr std::string_view name = "eager_one_forward_one_backward";

  /// Returns the computations of `stage`, in order; fewer microbatches than stages are allowed.
  [[nodiscard]] static constexpr std::vector<ext::scheduled_work> order(int stages, int stage,
                                                                        int microbatches) {
    int const warm_up = peak_activations(stages, stage, microbatches);
    std::vector<ext::scheduled_work> list;
    list.reserve(2 * static_cast<std::size_t>(microbatches));
    for (int i = 0; i < warm_up; ++i) list.push_back({ext::work::forward, i});
    for (int i = 0; i < microbatches; ++i) {
      list.push_back({ext::work::backward, i});
      if (warm_up + i < microbatches) list.push_back({ext::work::forward, warm_up + i});
    }
    return list;
  }

  /// Returns the greatest number of microbatches on `stage` that are between their forward and
  /// their backward.
  [[nodiscard]] static constexpr int peak_activations(int stages, int stage, int microbatches) {
    return std::min(2 * (stages - 1 - stage) + 1, microbatches);
  }
};

static_assert(ext::schedule<eager_one_forward_one_backward>);

template <>
inline constexpr bool detail::is_proved_by_tests<eager_one_forward_one_backward> = true;

}  // namespace plait
