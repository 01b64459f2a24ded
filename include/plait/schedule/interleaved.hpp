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

/// One forward and one backward in turn, with `Chunks` chunks of the model on each stage. While the
/// pipeline fills and drains, stages are idle for 1 / `Chunks` of the time for which they are idle
/// with `one_forward_one_backward`. In return, there are `Chunks` times as many messages and some
/// more activations. For example, on 4 stages with 2 chunks each, stage 0 has chunks 0 and 4 of the
/// 8, and the bubble is half as long.
///
/// Chunks are assigned to stages 0, 1, ..., then to 0, 1, ... again. If the number of microbatches
/// is not a multiple of the number of stages, the order is made for the next multiple, and the
/// surplus microbatches are left out.
/// Cost:    bubble (stages - 1) / Chunks * (forward + backward) time of a stage;
///          min(2 (stages - 1 - stage) + (Chunks - 1) stages + 1, microbatches Chunks) sets of
///          saved activations of a chunk.
/// Source:  Narayanan et al., "Efficient large-scale language model training on GPU clusters using
///          Megatron-LM", 2021.
template <int Chunks>
struct interleaved {
  static_assert(Chunks != 1,
                "interleaved<1>: each stage has only one chunk; write one_forward_one_backward");
  static_assert(
      Chunks >= 1,
      "interleaved<Chunks>: Chunks, the number of chunks on each stage, must be at least 2");
  using concept_tag = ext::schedule_tag;
  static constexpr std::string_view name = "interleaved";
  static constexpr int chunks = Chunks;
  static constexpr auto placement = ext::chunk_placement::loop;

  /// Returns the computations of `stage`, in order; any number of microbatches is allowed.
  [[nodiscard]] static constexpr std::vector<ext::scheduled_work> order(int stages, int stage,
                                                                        int microbatches) {
    int const all = (microbatches + stages - 1) / stages * stages * Chunks;
    int const warm_up = std::min(all, 2 * (stages - 1 - stage) + (Chunks - 1) * stages);
    std::vector<ext::scheduled_work> list;
    list.reserve(2 * static_cast<std::size_t>(all));
    // Microbatches form groups, each as large as the number of stages. A group passes through one
    // chunk of this stage, then through the next.
    auto const add = [&](ext::work kind, int number) {
      int const along = number / stages % Chunks, round = number / (stages * Chunks);
      int const microbatch = round * stages + number % stages;
      bool const is_forward = kind == ext::work::forward;
      if (microbatch < microbatches)
        list.push_back({kind, microbatch, is_forward ? along : Chunks - 1 - along});
    };
    for (int i = 0; i < warm_up; ++i) add(ext::work::forward, i);
    for (int i = 0; i < all; ++i) {
      if (warm_up + i < all) add(ext::work::forward, warm_up + i);
      add(ext::work::backward, i);
    }
    return list;
  }

  /// Returns the greatest number of microbatches on `stage` that are between their forward and
  /// their backward, counted once for each chunk.
  [[nodiscard]] static constexpr int peak_activations(int stages, int stage, int microbatches) {
    int now = 0, most = 0;
    for (auto const op : order(stages, stage, microbatches))
      most = std::max(most, now += op.kind == ext::work::forward ? 1 : -1);
    return most;
  }
};

static_assert(ext::schedule<interleaved<2>>);

template <int Chunks>
inline constexpr bool detail::is_proved_by_tests<interleaved<Chunks>> = true;

}  // namespace plait
