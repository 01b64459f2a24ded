// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "plait/backend/arguments.hpp"
#include "plait/backend/rounded_arena.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/stable_sort.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/plan/memory.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/train/state/state_ages.hpp"
#include "plait/train/state/state_element.hpp"

namespace plait::execution {

/// Returns the origin of a range of a parameter's elements. `range`: elements of the layout that
/// are in the parameter's block; `tensor_rank`: the rank that has the block, of `tensor_ranks`.
/// The offset of the result is 0.
[[nodiscard]] constexpr element_origin origin_of(parameter_entry const& entry,
                                                 parameter_block const& parameter,
                                                 element_range const& range, int tensor_rank,
                                                 int tensor_ranks) {
  auto const& info = entry.info;
  bool const is_cut = is_shard(entry.stored);
  bool const by_rows = is_cut && info.rank == 2 && entry.stored.index == 0;
  // Each part of a parameter is cut separately. Cut by columns, a part of each row is a piece.
  std::size_t const part =
      (by_rows ? info.rows * info.columns : info.columns) / planning::parts_of(entry);
  std::size_t const piece = is_cut ? part / static_cast<std::size_t>(tensor_ranks) : part;
  return {.count = range.count,
          .first = range.offset - parameter.offset,
          .begin = is_cut ? piece * static_cast<std::size_t>(tensor_rank) : 0,
          .piece = piece,
          .stride = part,
          .number = static_cast<std::uint32_t>(parameter.number)};
}

/// Returns the origins of all elements of a block that an optimizer updates, in the order of their
/// offsets in the block. Padding between parameters has no origin.
template <class Plan>
[[nodiscard]] [[gnu::cold]] lean_vector<element_origin> origins_of(
    lean_vector<parameter_block> const& parameters, owned_block const& block, int tensor_rank) {
  lean_vector<element_origin> out;
  for (auto const& parameter : parameters)
    if (auto const common = overlap(block.elements, parameter); common.count > 0) {
      out.push_back(origin_of(Plan::entries[parameter.entry], parameter, common, tensor_rank,
                              Plan::tensor_ranks));
      out.back().offset = common.offset - block.elements.offset;
    }
  plait::detail::stable_sort(out, [](auto const& a, auto const& b) { return a.offset < b.offset; });
  return out;
}

/// The memory on the device for the origins of all elements that a rank's optimizer updates, of an
/// optimizer whose states are rounded stochastically. The plan counts this memory as numbers.
template <class Device, class Optimizer>
  requires(state_bytes_of<Optimizer>() > 0)
class state_rounding<Device, Optimizer> {
  static_assert(std::is_same_v<typename Optimizer::state_element, bfloat16>,
                "an optimizer's state_element is not plait::bfloat16; write `using state_element = "
                "plait::bfloat16`, or leave it out, so that states have the parameters' type");
  static_assert(sizeof(element_origin) == number_tables::origin_bytes);

 public:
  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }

  /// Uploads the origins for blocks that the optimizer updates; no step that reads earlier origins
  /// is running. `parameters`: the blocks of parameters that the rank has.
  template <class Plan, class Rank>
  [[gnu::cold]] void lay_out(Rank& rank, lean_vector<parameter_block> const& parameters,
                             lean_vector<aged_block> const& updated) {
    auto& device = rank.device();
    if (memory_.size() == 0)
      memory_ = device.allocate(lay_out_numbers<Plan>(rank.stage(), rank.grid()).origin_table());
    auto* next = reinterpret_cast<element_origin*>(memory_.data());
    origins_.clear();
    for (auto const& each : updated) {
      auto const all = origins_of<Plan>(parameters, each.block, rank.tensor_rank());
      origins_.push_back({next, all.size()});
      device.upload(all.data(), next, all.size() * sizeof(element_origin));
      next += all.size();
    }
  }

  /// Returns the arena of the block with the index `block`, with all that rounding needs.
  template <class Parameter, class Gradient, class Copy>
  [[nodiscard]] rounded_arena<Parameter, Gradient, Copy> arena(
      optimizer_arena<Parameter, Gradient, Copy, bfloat16> const& of, std::size_t block,
      std::uint64_t seed, std::uint32_t const* step) const {
    static_assert(!std::is_same_v<Parameter, bfloat16>,
                  "the optimizer rounds its states to bfloat16, but the job's parameters are "
                  "bfloat16, too, in which most updates would be lost; write "
                  "precision<bfloat16, float>");
    auto const& origins = origins_[block];
    return {of, origins.data(), static_cast<int>(origins.size()), seed, step};
  }

 private:
  typename Device::arena memory_{};
  lean_vector<std::span<element_origin const>> origins_{};
};

}  // namespace plait::execution
