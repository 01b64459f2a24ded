// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/stable_sort.hpp"
#include "plait/placement/placement.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/policy/data_parallel.hpp"
#include "plait/policy/policy.hpp"

namespace plait::planning {

/// A parameter of a bucket, and the block that gets it.
struct dealt_parameter {
  int entry = 0, unit = 0;
  std::size_t count = 0;  ///< number of elements, rounded up to the alignment
  std::size_t owner = 0;  ///< number of the block
};

/// Assigns the parameters of one bucket to blocks: from the largest parameter to the smallest, each
/// goes to the block with the fewest elements so far. Returns the number of elements of a block.
constexpr std::size_t deal(lean_vector<dealt_parameter>& parameters, std::size_t owners,
                           std::size_t block_multiple) {
  lean_vector<std::size_t> order, loads(owners, 0);
  for (std::size_t i = 0; i < parameters.size(); ++i) order.push_back(i);
  plait::detail::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return parameters[a].count > parameters[b].count;
  });
  for (auto const i : order) {
    std::size_t least = 0;
    for (std::size_t owner = 1; owner < owners; ++owner)
      if (loads[owner] < loads[least]) least = owner;
    parameters[i].owner = least;
    loads[least] += parameters[i].count;
  }
  return rounded_up(*std::max_element(loads.begin(), loads.end()), block_multiple);
}

/// Moves the parameters of a stage within their buckets, so that each parameter is in one block of
/// its bucket, and pads the blocks to the length of the longest block. A bucket stays as it is, and
/// its blocks cut parameters, if the padded bucket would be at least twice as long as its
/// parameters, or if the bucket has units of several chunks of the pipeline.
///
/// Example: 2 ranks share a bucket of matrices of 300, 100, 400 and 400 elements. One block gets
///          the matrices of 400 and 300 elements. The other block gets the matrices of 400 and 100
///          elements, and 200 elements of padding. Each block has 700 elements.
constexpr void deal_parameters(parameter_layout& layout, parameters_to_deal const& all) {
  auto const count = std::size_t(all.entries.size());
  parameter_layout const old = layout;
  lean_vector<std::size_t> places(std::size_t(layout.units) * count, parameter_layout::absent);
  auto const place = [&](int entry, int unit) -> std::size_t& {
    return places[std::size_t(unit) * count + std::size_t(entry)];
  };
  std::size_t next = 0;
  layout.regions = {};
  for (std::size_t b = 0; b < old.buckets.size(); ++b) {
    auto const& from = old.buckets[b];
    lean_vector<dealt_parameter> parameters;
    std::size_t filled = 0;
    for (int unit = from.units.begin; unit < from.units.end; ++unit)
      for (int e = 0; e < all.entries.size(); ++e) {
        auto const& entry = all.entries[e];
        if (entry.owner >= 0 || old.entries[std::size_t(e)].region != from.region ||
            !all.items[entry.item].units().contains(unit) || !old.has(e, unit))
          continue;
        parameters.push_back({e, unit, rounded_up(entry.local_count(), all.alignment)});
        filled += parameters.back().count;
      }
    bool const is_of_one_chunk =
        std::any_of(all.chunks.begin(), all.chunks.end(), [&](unit_range const& chunk) {
          return chunk.begin <= from.units.begin && from.units.end <= chunk.end;
        });
    std::size_t const block = deal(parameters, all.owners, all.block_multiple);
    bool const is_dealt = is_of_one_chunk && block * all.owners < 2 * filled;
    auto& to = layout.buckets[b].elements;
    to = {next, is_dealt ? block * all.owners : from.elements.count};
    lean_vector<std::size_t> ends(all.owners, 0);  // the number of elements in each block so far
    for (auto const& one : parameters) {
      if (is_dealt) {
        place(one.entry, one.unit) = to.offset + one.owner * block + ends[one.owner];
        ends[one.owner] += one.count;
      } else {
        place(one.entry, one.unit) =
            to.offset + (old.offset(one.entry, one.unit) - from.elements.offset);
      }
    }
    next = to.end();
    layout.regions[std::size_t(from.region)].count += to.count;
  }
  layout.regions[parameter_layout::over_tensor].offset =
      layout.regions[parameter_layout::over_batch].count;

  // Elements after the buckets move by the difference of the lengths. A unit gets the offset of its
  // bucket, or of the next bucket if it has no parameters in the region.
  std::size_t const moved = layout.count() - old.count();
  for (int unit = 0; unit < layout.units; ++unit)
    for (int const region :
         {parameter_layout::over_batch, parameter_layout::over_tensor, parameter_layout::frozen}) {
      auto& base = layout.parameter_base[layout.base_of(region, unit)];
      if (base == parameter_layout::absent) continue;
      if (region == parameter_layout::frozen) {
        base += moved;
        continue;
      }
      std::size_t begin = layout.regions[std::size_t(region)].end();
      for (std::size_t b = old.buckets.size(); b-- > 0;)
        if (old.buckets[b].region == region && old.buckets[b].elements.end() > base)
          begin = layout.buckets[b].elements.offset;
      base = begin;
    }
  for (int e = 0; e < all.entries.size(); ++e) {
    auto& at = layout.entries[std::size_t(e)];
    if (at.is_tied) at.accumulator += moved;
    for (int unit = 0; unit < layout.units; ++unit) {
      if (all.entries[e].owner >= 0 && at.unit >= 0)
        place(e, unit) =
            at.region == parameter_layout::frozen
                ? layout.parameter_base[layout.base_of(at.region, at.unit)] + at.in_unit
                : place(all.entries[e].owner, at.unit);
      else if (at.region == parameter_layout::frozen && layout.has(e, unit))
        place(e, unit) = layout.parameter_base[layout.base_of(at.region, unit)] + at.in_unit;
    }
  }
  layout.dealt = std::move(places);
}

}  // namespace plait::planning

namespace plait::ext {

/// An option of data_parallel: `zero<Level>` with blocks of whole parameters, which optimizers such
/// as `muon` need. Within each bucket, plait assigns the parameters to the ranks from the largest
/// to the smallest, and pads the blocks of the ranks to the longest block. Each rank then owns
/// whole matrices, and updates only these. All else is as under zero<Level>.
///
/// Moves:  the bytes of zero<Level>, with the padding.
/// Memory: the memory of zero<Level>, with the padding, which plans count. Large buckets have
///         little padding. A bucket that would become twice as long as its parameters is cut as
///         under zero<Level>.
///
/// Example (tests/train/muon_test.cpp owners):
///     using owners = plait::data_parallel<2, plait::ext::zero_of_matrices<1>>;
///     struct owners_job : plait::parallel<model, owners> {};
template <int Level>
struct zero_of_matrices {
  static constexpr bool is_level = Level >= 1 && Level <= 3;
  static_assert(is_level,
                "zero_of_matrices<Level>: Level must be 1 (the optimizer's state is divided), 2 "
                "(gradients, too) or 3 (parameters, too); write zero_of_matrices<1>, "
                "zero_of_matrices<2> or zero_of_matrices<3>, or data_parallel<Ranks> to divide "
                "nothing");
  using zero_level = zero<is_level ? Level : 1>;
  static constexpr parameter_rule parameters{.kept = zero_level::parameters.kept,
                                             .summed = zero_level::parameters.summed,
                                             .owned = zero_level::parameters.owned,
                                             .deals_parameters = true,
                                             .deal = planning::deal_parameters};
};

}  // namespace plait::ext
