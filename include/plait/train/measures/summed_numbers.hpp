// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/placement/slice_tree.hpp"
#include "plait/train/measures/loss_terms.hpp"

namespace plait::execution {

/// The numbers of a step that are sums over samples: the counts and the losses of the terms. In
/// most plans these numbers are in step_scalars, and an all_reduce adds up the ranks' numbers. In a
/// reproducible plan, for example with 8 slices, the order of additions must not depend on the
/// number of ranks. This class therefore keeps a list with the numbers of each slice: a rank fills
/// in the numbers of its own slices and zeros for the others, an all_reduce brings the whole list
/// to all ranks, and each rank adds up the list along the tree of slices. The number by which ranks
/// agree to stop follows the losses in memory, so one all_reduce sums both.
///
/// `Terms`: loss_terms of the plan.
/// Threads: used by the one thread that runs the rank.
template <class Plan, class Terms, class Numbers>
class summed_numbers {
  static constexpr std::size_t terms = std::size_t(Terms::count);
  static constexpr std::size_t slices = std::size_t(Plan::slices);
  static constexpr std::size_t listed = slices * terms;

 public:
  /// `now` (the numbers of a step) and `list` (the list of the slices' numbers) are in the device's
  /// memory. `mine`: the block of the samples that this rank has.
  [[gnu::cold]] summed_numbers(Numbers* now, double* list, block_place mine)
      : now_(now), list_(list), samples_(mine) {
    if constexpr (slices > 0) {
      sums_ = slice_tree(Plan::slices).sums_of_slices();
      sent_.resize(2 * listed + 1);
    }
  }

  /// Counts the targets of this rank's batch, stores the counts in `now`, and uploads `now` and the
  /// list to the device.
  template <class Rank, class Batch>
  void upload(Rank& rank, Batch const& batch, Numbers& now) {
    auto const [mine, ranks] = samples_;
    if constexpr (slices == 0) {
      now.label_count = Terms::count_in(batch, 0, batch.microbatches, mine, ranks);
    } else {
      std::fill(sent_.begin(), sent_.end(), 0.0);
      for (int m = 0; m < batch.microbatches; ++m) {
        auto const counts = Terms::count_in(batch, m, m + 1, mine, ranks);
        std::copy(counts.begin(), counts.end(),
                  sent_.begin() + static_cast<std::ptrdiff_t>(terms) * (batch.first_slice + m));
      }
      sent_.back() = now.stop;
      rank.device().upload(sent_.data(), list_, sent_.size() * sizeof(double));
    }
    rank.device().upload(&now, now_, sizeof now);
  }

  /// Returns the address of the counts, which the ranks sum up.
  [[nodiscard]] double* label_count() const {
    if constexpr (slices == 0) return now_->label_count.data();
    else return list_;
  }
  /// Returns the address of the losses, which the ranks sum up; the number by which ranks agree to
  /// stop follows the losses.
  [[nodiscard]] double* loss() const {
    if constexpr (slices == 0) return now_->loss.data();
    else return list_ + listed;
  }
  /// The distance in memory, in numbers, from the losses of one microbatch to the losses of the
  /// next microbatch. If the plan has no slices, the distance is 0, because all microbatches share
  /// the same losses.
  static constexpr int loss_stride = slices == 0 ? 0 : int(terms);
  /// The number of losses: one for each term or, if the plan has slices, one for each term of each
  /// slice.
  static constexpr std::size_t losses = slices == 0 ? terms : listed;

  /// Adds up the counts of all slices, or the losses of all slices, after the ranks have summed up
  /// the list.
  template <class Queue>
  void total_counted(Queue const& queue) const {
    if constexpr (slices > 0) total(queue, label_count(), now_->label_count.data());
  }
  template <class Queue>
  void total_loss(Queue const& queue) const {
    if constexpr (slices > 0) {
      total(queue, loss(), now_->loss.data());
      queue.copy_bytes(loss() + listed, &now_->stop, sizeof(double));
    }
  }

 private:
  template <class Queue>
  void total(Queue const& queue, double* list, double* out) const {
    for (auto const& [to, from] : sums_) {
      auto* const sum = list + std::size_t(to) * terms;
      queue.add(sum, list + std::size_t(from) * terms, sum, terms);
    }
    queue.copy_bytes(list, out, terms * sizeof(double));
  }

  Numbers* now_;
  double* list_;
  block_place samples_;
  lean_vector<slice_tree::sum> sums_{};
  std::vector<double> sent_{};
};

}  // namespace plait::execution
