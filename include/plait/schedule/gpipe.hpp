// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "plait/schedule/operation.hpp"
#include "plait/schedule/schedule.hpp"

namespace plait {

/// All forwards, then all backwards: the simplest schedule, which keeps the activations of every
/// microbatch at once.
///
/// Cost:    bubble (stages - 1) * (forward + backward) time; `microbatches` sets of saved
///          activations.
/// Source:  Huang et al., "GPipe", 2019.
struct gpipe {
  using concept_tag = ext::schedule_tag;
  static constexpr std::string_view name = "gpipe";

  /// Returns the computations of a stage, in order; they are equal on every stage.
  [[nodiscard]] static constexpr std::vector<ext::scheduled_work> order(int /*stages*/,
                                                                        int /*stage*/,
                                                                        int microbatches) {
    std::vector<ext::scheduled_work> list;
    list.reserve(2 * static_cast<std::size_t>(microbatches));
    for (int i = 0; i < microbatches; ++i) list.push_back({ext::work::forward, i});
    for (int i = 0; i < microbatches; ++i) list.push_back({ext::work::backward, i});
    return list;
  }

  /// Returns the greatest number of microbatches on `stage` that are between their forward and
  /// their backward.
  [[nodiscard]] static constexpr int peak_activations(int /*stages*/, int /*stage*/,
                                                      int microbatches) {
    return microbatches;
  }
};

static_assert(ext::schedule<gpipe>);

template <>
inline constexpr bool detail::is_proved_by_tests<gpipe> = true;

}  // namespace plait
