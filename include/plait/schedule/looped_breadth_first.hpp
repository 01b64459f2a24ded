// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "plait/core/namespaces.hpp"
#include "plait/schedule/operation.hpp"
#include "plait/schedule/schedule.hpp"

namespace plait {

/// Runs the forwards of all microbatches through one chunk of a stage, then through the next chunk,
/// and later the backwards in the same way. Stages are idle for as long as with `interleaved`. All
/// forwards of a chunk are consecutive, and so are its backwards, so the parameters of the chunk
/// are needed only twice in a step. In return, the activations of all microbatches are kept at
/// once.
///
/// Chunks are assigned to all stages in turn.
/// Cost:    bubble (stages - 1) / Chunks * (forward + backward) time of a stage;
///          microbatches * Chunks sets of saved activations of a chunk.
/// Source:  Lamy-Poirier, "Breadth-first pipeline parallelism", 2022.
template <int Chunks>
struct looped_breadth_first {
  static_assert(Chunks != 1, "looped_breadth_first<1>: each stage has only one chunk; write gpipe");
  static_assert(Chunks >= 1,
                "looped_breadth_first<Chunks>: Chunks, the number of chunks on each stage, must be "
                "at least 2");
  using concept_tag = ext::schedule_tag;
  static constexpr std::string_view name = "looped_breadth_first";
  static constexpr int chunks = Chunks;
  static constexpr auto placement = ext::chunk_placement::loop;

  /// Returns the computations of a stage, in order; they are equal on every stage.
  [[nodiscard]] static constexpr std::vector<ext::scheduled_work> order(int /*stages*/,
                                                                        int /*stage*/,
                                                                        int microbatches) {
    std::vector<ext::scheduled_work> list;
    list.reserve(2 * static_cast<std::size_t>(Chunks * microbatches));
    for (int chunk = 0; chunk < Chunks; ++chunk)
      for (int i = 0; i < microbatches; ++i) list.push_back({ext::work::forward, i, chunk});
    for (int chunk = Chunks - 1; chunk >= 0; --chunk)
      for (int i = 0; i < microbatches; ++i) list.push_back({ext::work::backward, i, chunk});
    return list;
  }

  /// Returns the greatest number of microbatches on a stage that are between their forward and
  /// their backward, counted once for each chunk.
  [[nodiscard]] static constexpr int peak_activations(int /*stages*/, int /*stage*/,
                                                      int microbatches) {
    return Chunks * microbatches;
  }
};

static_assert(ext::schedule<looped_breadth_first<2>>);

template <int Chunks>
inline constexpr bool detail::is_proved_by_tests<looped_breadth_first<Chunks>> = true;

}  // namespace plait
