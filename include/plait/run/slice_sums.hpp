// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/lean_vector.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/placement/slice_tree.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/sharding/gradient_arena.hpp"
#include "plait/run/block_exchange.hpp"
#include "plait/run/transfer_runner.hpp"

namespace plait::execution {

/// Sums the gradients of the slices of a global batch along a tree that depends only on the number
/// of slices (slice_tree). Floating-point sums depend on their order, so without the tree 2 and 3
/// data ranks would compute different bits. Each rank computes the gradients of its slices one
/// after the other, each in an accumulator of its own, and adds two accumulators as soon as both
/// children of a node of the tree are complete. The accumulators that remain after the passes are
/// the rank's roots. The ranks exchange their roots and add them in the order of the tree. The sum
/// is stored in the first accumulator.
///
/// For example, 6 slices are summed as ((0+1) + (2+3)) + (4+5). Of two ranks, rank 0 computes the
/// slices 0 to 2 and keeps the roots 0+1 and 2, and rank 1 computes the slices 3 to 5 and keeps the
/// roots 3 and 4+5. Each then computes half of the elements of the whole sum from these four roots.
///
/// Cost:    a rank with n slices and k roots makes n - k additions of two accumulators; no call
///          allocates.
/// Errors:  the errors of the communicator.
/// Threads: used by the one thread that runs the rank.
template <class Sum, class Rank, bool HasSlices>
class slice_sums {
  using sum = Sum;

 public:
  /// `plan`: the numbers of the job's plan; `parameters`: the layout of the rank's stage;
  /// `gradients`: the arena, filled with zeros, with the layout of plan::gradient_arena_for.
  [[gnu::cold]] slice_sums(Rank& rank, plan_ir const& plan, parameter_layout const& parameters,
                           gradient_arena const& layout, sum* gradients)
      : layout_(layout),
        gradients_(gradients),
        exchange_(
            rank, layout, gradients,
            slice_tree(plan.slices)
                .sums_of_roots(block_of(plan.samples, rank.grid(), rank.coordinates()).blocks)) {
    slice_tree const tree(plan.slices);
    auto const [mine, ranks] = block_of(plan.samples, rank.grid(), rank.coordinates());
    mine_ = tree.of_rank(mine, ranks);
    steps_ = tree.steps(mine_);
    roots_ = static_cast<int>(tree.roots(mine_).size());
    auto const chunks = plan.chunks_of(rank.stage());
    for (int chunk = 0; chunk < chunks.size(); ++chunk) {
      ranges_.push_back({});
      auto& ranges = ranges_.back();
      if (chunks.size() == 1) ranges.push_back({0, layout_.stride});
      else
        for_each_gradient_range(
            parameters, plan.items, plan.entries, chunks, chunk,
            [&](element_range const& one) { ranges.push_back({one.offset, one.count}); });
    }
  }

  /// Returns the range of slices that this rank computes.
  [[nodiscard]] slice_range mine() const { return mine_; }

  /// Clears the accumulators before the first slice of a step. After the last step, only the
  /// accumulators that are roots contain numbers other than zero.
  void clear(Rank& rank) const {
    auto const queue = rank.device().on(stream::compute);
    queue.fill(sum{0}, gradients_, layout_.stride * std::size_t(roots_));
  }
  /// Returns the accumulator of microbatch `microbatch`. Each microbatch is one slice of the batch.
  [[nodiscard]] sum* place_of(int microbatch) const {
    return accumulator(steps_[std::size_t(microbatch)].accumulator);
  }
  /// Adds accumulators along the tree, after the backward of a pipeline chunk has written the
  /// chunk's gradients of a microbatch. Chunks are summed independently, because each chunk has its
  /// own ranges in all accumulators.
  void add(Rank& rank, int chunk, int microbatch) const {
    auto const& now = steps_[std::size_t(microbatch)];
    auto const queue = rank.device().on(stream::compute);
    for (int last = now.accumulator; last > now.accumulator - now.sums; --last)
      for (auto const& one : ranges_[std::size_t(chunk)])
        queue.add_and_clear(accumulator(last - 1) + one.offset, accumulator(last) + one.offset,
                            one.count);
  }

  /// Carries out the row of an operation: brings the ranks' roots of each block together and adds
  /// them up.
  void exchange(transfer_runner<Rank> const& transfers, program_operation const& of) const {
    exchange_.run(transfers, of, gradients_, roots_);
  }

 private:
  // A range of the arena. The type is a member of this class, so that programs without slices do
  // not compile a vector of it.
  struct range {
    std::size_t offset = 0, count = 0;
  };

  [[nodiscard]] sum* accumulator(int number) const {
    return gradients_ + std::size_t(number) * layout_.stride;
  }

  gradient_arena layout_;
  sum* gradients_;
  block_exchange<Sum, wire_format::unrounded, Rank> exchange_;
  slice_range mine_{};
  lean_vector<slice_tree::step> steps_;
  int roots_ = 0;
  lean_vector<lean_vector<range>> ranges_;  // the ranges of the gradients of each chunk
};

/// Sums all gradients in one accumulator. This specialization is for a plan without slices.
template <class Sum, class Rank>
class slice_sums<Sum, Rank, false> {
  using sum = Sum;

 public:
  slice_sums(Rank&, plan_ir const&, parameter_layout const&, gradient_arena const&, sum* gradients)
      : gradients_(gradients) {}
  void clear(Rank&) const {}
  [[nodiscard]] sum* place_of(int) const { return gradients_; }
  void add(Rank&, int, int) const {}
  void exchange(transfer_runner<Rank> const&, program_operation const&) const {}

 private:
  sum* gradients_;
};

}  // namespace plait::execution
