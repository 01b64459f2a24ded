// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "plait/plait.hpp"

namespace plait_test {

using namespace plait::ext;

/// All forwards, then the backwards, in which the half for the parameters of a microbatch follows
/// the half for the inputs of the next microbatch.
struct halves_of_two_chunks {
  using concept_tag = schedule_tag;
  static constexpr std::string_view name = "halves_of_two_chunks";
  static constexpr int chunks = 2;
  static constexpr bool splits_backward = true;
  static constexpr auto placement = chunk_placement::loop;

  static constexpr std::vector<scheduled_work> order(int stages, int stage, int microbatches) {
    auto const table = lowered(stages, microbatches);
    std::vector<scheduled_work> out;
    for (auto const& now : table.stages[std::size_t(stage)].operations)
      if (computes(now.kind)) out.push_back(now);
    return out;
  }
  static constexpr int peak_activations(int, int, int microbatches) { return 2 * microbatches; }

  static constexpr timetable lowered(int stages, int microbatches) {
    timetable out{microbatches, true, plait::ext::lean_vector<stage_program>(std::size_t(stages)),
                  chunks,       true, placement};
    for (auto& stage : out.stages) stage.slots = {2 * microbatches, 2 * microbatches, 2};
    int const last = stages * chunks - 1;
    auto const add = [&](int number, work kind, int microbatch) {
      out.stages[std::size_t(number % stages)].operations.push_back(
          {kind, microbatch, number / stages});
    };
    for (int m = 0; m < microbatches; ++m)
      for (int number = 0; number <= last; ++number) {
        if (number > 0) add(number, work::receive_activation, m);
        add(number, work::forward, m);
        if (number < last) add(number, work::send_activation, m);
      }
    for (int m = 0; m <= microbatches; ++m) {
      for (int number = last; number >= 0 && m < microbatches; --number) {
        if (number < last) add(number, work::receive_gradient, m);
        add(number, work::backward_input, m);
        if (number > 0) add(number, work::send_gradient, m);
      }
      for (int number = 0; number <= last && m > 0; ++number)
        add(number, work::backward_parameters, m - 1);
    }
    return out;
  }
};

}  // namespace plait_test
