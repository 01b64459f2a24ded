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

/// The numbers of a step that are summed over samples: what the terms of the loss count, and the
/// loss. Without slices they are where step_scalars has them. With slices each slice has them for
/// itself, in a list behind which the number is that says whether to stop; ranks transfer the list,
/// in which each has its slices among zeros, and each adds it up along the tree.
///
/// `Terms` is loss_terms of the plan.
/// Threads: used by the one thread that runs the rank.
template <class Plan, class Terms, class Numbers>
class summed_numbers {
  static constexpr std::size_t terms = std::size_t(Terms::count);
  static constexpr std::size_t slices = std::size_t(Plan::slices);
  static constexpr std::size_t listed = slices * terms;

 public:
  /// `now` and `list` are on the device.
  [[gnu::cold]] summed_numbers(Numbers* now, double* list) : now_(now), list_(list) {
    if constexpr (slices > 0) {
      sums_ = slice_tree(Plan::slices).sums_of_slices();
      sent_.resize(2 * listed + 1);
    }
  }

  /// Counts in a batch of this rank and brings `now`, with that, and the list to the device.
  template <class Rank, class Batch>
  void upload(Rank& rank, Batch const& batch, Numbers& now) {
    auto const [mine, ranks] = block_of(Plan::samples, rank.grid(), rank.place());
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

  /// What the ranks sum up to know what the terms count.
  [[nodiscard]] double* label_count() const {
    if constexpr (slices == 0) return now_->label_count.data();
    else return list_;
  }
  /// The loss in the same way. Behind it is the number that says whether to stop.
  [[nodiscard]] double* loss() const {
    if constexpr (slices == 0) return now_->loss.data();
    else return list_ + listed;
  }
  /// From the loss of one microbatch to that of the next, in numbers: each slice has its own.
  static constexpr int loss_stride = slices == 0 ? 0 : int(terms);
  /// How many numbers the loss is.
  static constexpr std::size_t losses = slices == 0 ? terms : listed;

  /// Adds up what the slices count, or their loss, where all ranks have summed it up.
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
  lean_vector<slice_tree::sum> sums_{};
  std::vector<double> sent_{};
};

}  // namespace plait::execution
