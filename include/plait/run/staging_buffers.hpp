// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/plan_ir.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/policy/policy.hpp"
#include "plait/run/layer_views.hpp"

namespace plait::execution {

/// This rank's block of a bucket: the range `held` of an arena that contains the block, and the
/// offset `in_bucket` of the block from the beginning of the whole bucket.
struct block_of_bucket {
  element_range held{};
  std::size_t in_bucket = 0;
};
[[nodiscard]] block_of_bucket block_in(parameter_layout const& layout, stored_buckets const& at,
                                       int bucket, std::size_t number);
/// Returns the index of the block that the rank with the coordinates `place` holds of a bucket with
/// the placements `held`.
[[nodiscard]] inline std::size_t number_of_block(placements const& held, mesh const& grid,
                                                 coordinates const& place) {
  return std::size_t(grid.block_of(place, held.axes_with(shard<dim::elements>)));
}

/// A use of a parameter by a unit, with the bucket that contains the parameter. `in_bucket` is the
/// offset of the parameter from the beginning of the bucket.
struct use_in_bucket {
  int bucket = 0;
  std::size_t use = 0;  ///< index of this use among the uses of all units
  std::size_t in_bucket = 0;
  bool has_gradient = false;  ///< the bucket of gradients has a gradient at this offset
};

/// The staging buffers (rooms) of a stage, in which buckets of parameters or gradients are whole
/// while passes use them. With sharded parameters or gradients, as with zero<3>, a rank's arena
/// contains only its block of each bucket, but a layer reads whole parameters. So a stage has a
/// room for two buckets: layers read one bucket while ranks gather the bucket of the next layers.
/// copy_block() copies this rank's block into the room, an all_gather completes the bucket there,
/// and the addresses of its parameters change to the room. release() discards the bucket. For
/// gradients, a backward writes a whole bucket into a second room, a reduce_scatter leaves this
/// rank its block of the sum, and accumulate() adds the block to the sums of the step.
///
/// For example, with 4 data ranks and buckets of 1000 elements, rank 1 stores 250 elements of each
/// bucket. copy_block() copies these to the elements 250 to 499 of the whole bucket in the room.
///
/// Cost:    no call allocates.
/// Threads: used by the one thread that runs the rank.
template <class T, class Sum, class Rank, bool HasRooms>
class staging_buffers {
  using sum = Sum;

 public:
  /// `plan`: the numbers of the job's plan; `layout`: the layout of the parameters of the rank's
  /// stage; `places`: the offsets at which the stage's layers find their parameters, which this
  /// class changes.
  [[gnu::cold]] staging_buffers(Rank& rank, plan_ir const& plan, parameter_layout layout,
                                lean_vector<parameter_place>& places, T* parameters, Sum* gradients)
      : rank_(rank),
        places_(places),
        parameters_(parameters),
        gradients_(gradients),
        layout_(std::move(layout)),
        kept_(number_of_block(plan.rules.kept, rank.grid(), rank.coordinates())),
        summed_(number_of_block(plan.rules.summed, rank.grid(), rank.coordinates())) {
    list_uses(plan);
    if (plan.rules.keeps_blocks()) hide(-1);
  }

  /// Returns the address, in the room, at which ranks gather the bucket of parameters of operation
  /// `of`.
  [[nodiscard]] T* parameters(program_operation const& of) const {
    return parameters_ + parameter_room(of).offset;
  }
  /// Returns the address, in the room, at which ranks sum the bucket of gradients of operation
  /// `of`.
  [[nodiscard]] sum* gradients(program_operation const& of) const {
    return gradients_ + gradient_room(of).offset;
  }

  /// Copies this rank's block of a bucket of parameters into the room in which ranks gather the
  /// bucket. After this call layers read the parameters of the bucket in the room.
  void copy_block(program_operation const& now) {
    auto const room = parameter_room(now);
    auto const block = block_in(layout_, layout_.parameters_at, now.bucket, kept_);
    gathered_[std::size_t((is_frozen(now.bucket) ? 2 : 0) + (now.at_end ? 1 : 0))] = now;
    queue().discard(parameters_ + room.offset, room.count * sizeof(T));
    queue().copy_bytes(parameters_ + block.held.offset, parameters_ + room.offset + block.in_bucket,
                       block.held.count * sizeof(T));
    for (auto const& one : uses_)
      if (one.bucket == now.bucket) places_[one.use].parameter = room.offset + one.in_bucket;
  }
  /// Discards the buckets that are not needed after the pass `now`. Bit 2 f + e of `now.releases`
  /// stands for a bucket: f is 1 for the room of frozen parameters, and e is 1 for the bucket at
  /// the end of the room.
  void release(program_operation const& now) {
    for (std::size_t end = 0; end < gathered_.size(); ++end) {
      auto const& gone = gathered_[end];
      if ((now.releases >> end & 1) == 0 || gone.bucket < 0) continue;
      auto const room = parameter_room(gone);
      queue().discard(parameters_ + room.offset, room.count * sizeof(T));
      hide(gone.bucket);
    }
  }
  /// Prepares the backward `now`, which writes gradients of a bucket: sets the offsets of these
  /// gradients to the room.
  void begin(program_operation const& now) {
    if (now.bucket < 0) return;
    std::size_t const begin = gradient_room(now).offset;
    for (auto const& one : uses_)
      if (one.bucket == now.bucket && one.has_gradient)
        places_[one.use].gradient = begin + one.in_bucket;
  }
  /// Adds this rank's block of a microbatch's gradients to the same block of the step's gradients.
  void accumulate(program_operation const& now) {
    auto const room = gradient_room(now);
    auto const block = block_in(layout_, layout_.gradients_at, now.bucket, summed_);
    sum const* const from = gradients_ + room.offset + block.in_bucket;
    sum* const to = gradients_ + block.held.offset;
    if (now.begins) queue().copy_bytes(from, to, block.held.count * sizeof(sum));
    else queue().add(to, from, to, block.held.count);
    queue().discard(gradients_ + room.offset, room.count * sizeof(sum));
  }

 private:
  /// Sets the offsets of the parameters of a bucket, or of all buckets if `bucket` is -1, to the
  /// end of the arena. So a layer that reads them by mistake does not read the parameters of
  /// another bucket.
  void hide(int bucket) {
    for (auto const& one : uses_)
      if ((bucket < 0 || one.bucket == bucket) &&
          layout_.bucket_at(std::size_t(one.bucket)).region != parameter_layout::over_tensor)
        places_[one.use].parameter = layout_.parameters_at.count;
  }
  [[gnu::cold]] void list_uses(plan_ir const& plan) {
    auto const& entries = plan.entries;
    int const buckets = int(layout_.buckets.size() + layout_.frozen_buckets.size());
    for (int e = 0; e < entries.size(); ++e) {
      auto const units = plan.items[entries[e].item].units();
      for (int unit = units.begin; unit < units.end; ++unit) {
        if (!layout_.has(e, unit)) continue;
        std::size_t const offset = layout_.offset(e, unit);
        for (int b = 0; b < buckets; ++b) {
          auto const& elements = layout_.bucket_at(std::size_t(b)).elements;
          if (offset >= elements.offset && offset < elements.end())
            uses_.push_back({b, std::size_t(unit) * std::size_t(entries.size()) + std::size_t(e),
                             offset - elements.offset,
                             entries[e].owner < 0 && !entries[e].is_frozen});
        }
      }
    }
  }

  [[nodiscard]] auto queue() const { return rank_.device().on(stream::compute); }
  [[nodiscard]] bool is_frozen(int bucket) const {
    return std::size_t(bucket) >= layout_.buckets.size();
  }
  [[nodiscard]] element_range place_in(element_range const& room,
                                       program_operation const& of) const {
    std::size_t const count = layout_.bucket_at(std::size_t(of.bucket)).elements.count;
    return {of.at_end ? room.end() - count : room.offset, count};
  }
  [[nodiscard]] element_range parameter_room(program_operation const& of) const {
    auto const& at = layout_.parameters_at;
    return place_in(is_frozen(of.bucket) ? at.frozen_room : at.room, of);
  }
  [[nodiscard]] element_range gradient_room(program_operation const& of) const {
    return place_in(layout_.gradients_at.room, of);
  }

  Rank& rank_;
  lean_vector<parameter_place>& places_;
  T* parameters_;
  sum* gradients_;
  parameter_layout layout_;
  std::size_t kept_, summed_;  // indices of this rank's blocks of parameters and of gradients
  lean_vector<use_in_bucket> uses_{};
  std::array<program_operation, 4>
      gathered_{};  // the last copy_block() into each end of both rooms
};

/// The staging buffers of plans whose ranks hold whole parameters and whole gradients: all
/// functions do nothing.
template <class T, class Sum, class Rank>
class staging_buffers<T, Sum, Rank, false> {
 public:
  staging_buffers(Rank&, plan_ir const&, parameter_layout const&, lean_vector<parameter_place>&, T*,
                  Sum*) {}
  T* parameters(program_operation const&) const { return nullptr; }
  Sum* gradients(program_operation const&) const { return nullptr; }
  void copy_block(program_operation const&) {}
  void release(program_operation const&) {}
  void begin(program_operation const&) {}
  void accumulate(program_operation const&) {}
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/run/staging_buffers.ipp"
#endif
