// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/memory/storage.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"

namespace plait::planning {

/// The alignment of buffers: they begin at multiples of this number of bytes.
inline constexpr std::size_t alignment_bytes = 64;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

/// The offsets of all activations, for microbatches with a given number of rows.
///
/// Each copy of an item has an activation stash for its backward: the item's output, kept values
/// and saved slots. Offsets are in bytes from the start of the stash. Copies of an item have equal
/// layouts, so a copy's address is its stash's base plus an offset. Transient buffers of all items
/// begin at a common address, since only one item runs at a time. Buffers that are recomputed are
/// last in the layout; they are not in the stash but in the rank's working record, see
/// record_levels. Example: if a unit keeps 96 KiB and recomputes 160 KiB, `stash_end` is 96 KiB and
/// offsets from there on are in the working record.
template <int Leaves>
struct activation_layout {
  static constexpr auto values = static_cast<std::size_t>(program<Leaves>::most_values);
  static constexpr auto items = static_cast<std::size_t>(2 * Leaves + 1);
  using slots = std::array<std::size_t, slots_info::most_slots>;

  std::array<std::size_t, values> value_offset{};     ///< for each value with memory of its own
  std::array<std::size_t, values> gradient_offset{};  ///< for each gradient with memory of its own
  std::array<slots, static_cast<std::size_t>(Leaves)> saved_offset{};
  std::array<slots, static_cast<std::size_t>(Leaves)> scratch_offset{};
  /// For each item, the bytes of its activation stash, including the buffers that are recomputed.
  std::array<std::size_t, items> activation_stash_bytes{};
  /// For each item and each `granularity` of a unit: the end of the part that is in the stash.
  std::array<std::array<std::size_t, granularities>, items> stash_end{};
  /// Bytes of the item's output, which is first in its stash.
  std::array<std::size_t, items> output_bytes{};
  std::array<std::size_t, items> input_bytes{};
  /// For each leaf, the offset in the gradient stash of its item's copy at which backward_input
  /// leaves the gradient of the leaf's output for backward_parameters.
  std::array<std::size_t, static_cast<std::size_t>(Leaves)> gradient_stash_offset{};
  std::array<std::size_t, items> gradient_stash_bytes{};
  /// For each item, bytes of its transient buffers.
  std::array<std::size_t, items> transient_bytes{};
  /// For each item, bytes of the staging buffer in which changes of placement pack data to send.
  std::array<std::size_t, items> staging_bytes{};
};

/// The shape of a rank's block of a value.
struct block_shape {
  std::size_t rows = 0, columns = 0;
  [[nodiscard]] constexpr std::size_t count() const { return rows * columns; }
};

/// Returns the shape of a rank's block of a value of `rows` rows.
constexpr block_shape local_block(value const& what, std::size_t rows, int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  bool const cut = is_shard(what.at);
  bool const by_rows = cut && what.at.index == dim::sequence;
  return {by_rows ? rows / p : rows, cut && !by_rows ? what.info.width / p : what.info.width};
}

/// Returns the number of elements of a slot for `rows` whole rows, in placement `at`.
constexpr std::size_t slot_count(slot_info const& slot, placement at, std::size_t rows, int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  bool const cut = is_shard(at);
  bool const by_rows = cut && at.index == dim::sequence;
  return (by_rows ? rows / p : rows) * (cut && !by_rows ? slot.per_row / p : slot.per_row) +
         slot.fixed;
}
/// Returns the number of elements of a slot on one rank, for a layer in form `form`.
constexpr std::size_t slot_count(slot_info const& slot, form_info const& form, std::size_t rows,
                                 int ranks) {
  return slot_count(slot, placement_of(slot, form), rows, ranks);
}

/// Returns the layout of the activations of microbatches of `rows` rows. `element_bytes` is the
/// size of an element, and `slot_bytes` the size of an element in slots that keep sums.
///
/// `levels`: a view of the one record_levels if anything is recomputed, or an empty view.
template <int Leaves>
[[gnu::cold]] constexpr activation_layout<Leaves> lay_out_activations(
    program<Leaves> const& code, auto const& leaves,
    storage_plan<program<Leaves>::most_values> const& storage, std::size_t rows, int ranks,
    std::size_t element_bytes, std::size_t slot_bytes,
    static_view<record_levels<Leaves>> levels = {}) {
  activation_layout<Leaves> out;
  auto const bytes_of = [&](int index) {
    auto const& what = code.values[index];
    std::size_t const each =
        what.info.kind == value_kind::tokens ? sizeof(std::int32_t) : element_bytes;
    return aligned(local_block(what, rows, ranks).count() * each);
  };
  int v = 0;  // values are in the order of items
  for (int i = 0; i < code.items.size(); ++i) {
    auto const& piece = code.items[i];
    auto const at = static_cast<std::size_t>(i);
    std::size_t kept = bytes_of(piece.out), forward = 0, backward = 0;
    out.output_bytes[at] = kept;
    out.input_bytes[at] = bytes_of(piece.in);
    int const first_value = v;
    // A buffer must hold all values that share it. The root of these values is never smaller than
    // the others, which are as long as the root or are blocks of its rows.
    for (; v < code.values.size() && code.values[v].item == i; ++v) {
      auto const place = [&](residence const& where, std::size_t& offset, std::size_t& transient) {
        if (where.root == v && where.where == storage_kind::transient)
          offset = transient, transient += bytes_of(v);
      };
      auto const index = static_cast<std::size_t>(v);
      place(storage.values[index], out.value_offset[index], forward);
      place(storage.gradients[index], out.gradient_offset[index], backward);
    }
    auto const place_slots = [&](int leaf, slots_info const& info, auto& offsets, auto which,
                                 std::size_t& next) {
      for (int k = 0; k < info.own.size(); ++k) {
        auto const& own = info.own[k];
        std::size_t const each = own.element == slot_element::compute ? element_bytes : slot_bytes;
        if (!which(own)) continue;
        offsets[static_cast<std::size_t>(k)] = next;
        next += aligned(each * slot_count(own, code.form(leaf), rows, ranks));
      }
    };
    for (int level = made_never; level >= (levels.size() == 0 ? made_never : 0); --level) {
      if (level < granularities) out.stash_end[at][static_cast<std::size_t>(level)] = kept;
      for (int value = first_value; value < v; ++value) {
        auto const index = static_cast<std::size_t>(value);
        auto const& where = storage.values[index];
        if (where.root == value && where.where == storage_kind::kept &&
            (levels.size() == 0 || levels[0].root[index] == level))
          out.value_offset[index] = kept, kept += bytes_of(value);
      }
      for (int leaf = piece.first_leaf; leaf < piece.end_leaf; ++leaf) {
        auto const index = static_cast<std::size_t>(leaf);
        auto const is_here = [&](slot_info const& own) {
          return levels.size() == 0 ||
                 level == (own.is_always_kept ? made_never : levels[0].slots[index]);
        };
        place_slots(leaf, leaves[leaf].saved, out.saved_offset[index], is_here, kept);
      }
    }
    for (int leaf = piece.first_leaf; leaf < piece.end_leaf; ++leaf) {
      std::size_t both = std::max(forward, backward);
      place_slots(
          leaf, leaves[leaf].scratch, out.scratch_offset[static_cast<std::size_t>(leaf)],
          [](slot_info const&) { return true; }, both);
      // Scratch is placed after all buffers of both directions. The scratch of a leaf comes after
      // the scratch of earlier leaves, although two leaves never use scratch at the same time.
      forward = backward = both;
    }
    for (int s = piece.first_node; s < piece.end_node; ++s) {
      auto const& now = code.nodes[s];
      if (now.kind == program_node_kind::move)
        out.staging_bytes[at] =
            std::max({out.staging_bytes[at], bytes_of(now.in), bytes_of(now.out)});
      if (now.kind != program_node_kind::leaf || !leaves[now.leaf].is_trained()) continue;
      out.gradient_stash_offset[static_cast<std::size_t>(now.leaf)] = out.gradient_stash_bytes[at];
      if (!leaves[now.leaf].is_loss) out.gradient_stash_bytes[at] += bytes_of(now.out);
    }
    out.activation_stash_bytes[at] = kept;
    if (levels.size() == 0) out.stash_end[at].fill(kept);
    out.transient_bytes[at] = std::max(forward, backward);
  }
  return out;
}

/// Parameters, and accumulators of tied uses, begin at multiples of this number of elements. Copies
/// in bfloat16 have equal offsets in elements, so they begin at multiples of 128 bytes.
inline constexpr std::size_t parameter_alignment = 64;

/// The alignment of parameters, in elements, in plans that sum gradients slice by slice. A
/// parameter is divided into pieces of this number of elements, and the squares of each piece are
/// added up separately. No two ranks share a piece, so the sums have equal bits on any number of
/// ranks.
inline constexpr std::size_t square_piece = 1024;

constexpr std::size_t rounded_up(std::size_t count, std::size_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// A range of the elements of an arena.
struct element_range {
  std::size_t offset = 0, count = 0;
  [[nodiscard]] constexpr std::size_t end() const { return offset + count; }
  friend constexpr bool operator==(element_range const&, element_range const&) = default;
};

constexpr element_range overlap(element_range const& a, element_range const& b) {
  std::size_t const begin = std::max(a.offset, b.offset), end = std::min(a.end(), b.end());
  return {begin, begin < end ? end - begin : 0};
}

/// A range of a parameter_layout that one collective moves. In region over_batch and in the frozen
/// region, a bucket has the parameters of consecutive units of a chunk; in region over_tensor it
/// has all parameters of the region. Where ranks own or hold blocks, each rank has one block of
/// each bucket. Example: with at least 1 Mi elements per bucket, units of 400 Ki elements make
/// buckets of three units.
struct bucket {
  int region = 0;
  unit_range units{};  ///< units of the model with parameters in the bucket
  element_range elements{};
};

/// The places of a layout's buckets in an arena. An arena has each bucket whole or, if the bucket
/// is cut, this rank's block of it. After the buckets it has a staging buffer (`room`), in which
/// cut buckets are gathered for the layers that use them. This buffer holds the two buckets that
/// are used one after the other, one at its beginning and one at its end, so that the next bucket
/// can be gathered while layers compute with the current one.
struct stored_buckets {
  lean_vector<std::size_t> base{};    ///< offset of each bucket, in elements
  lean_vector<std::size_t> blocks{};  ///< number of blocks that each bucket is cut into
  element_range room{};
  element_range frozen_room{};    ///< second staging buffer, for frozen buckets
  std::size_t after_buckets = 0;  ///< offset of the elements that follow the buckets
  std::size_t count = 0;          ///< elements of the arena
};

/// The place of a parameter within its unit.
struct entry_place {
  int region = 0;               ///< region of the layout
  int unit = -1;                ///< for a tied use, the unit of the owner; -1: the use's own unit
  std::size_t in_unit = 0;      ///< offset within the unit's part of the region
  bool is_tied = false;         ///< true for a tied use whose gradients have their own accumulator
  std::size_t accumulator = 0;  ///< offset of that accumulator
};

/// The places of the parameters of one stage in one flat arena that has all of them, in elements.
/// Gradients have the same layout, and so has the optimizer's state if each rank has all of it;
/// both are without the frozen parameters, which are last. If ranks hold only blocks,
/// `parameters_at` and `gradients_at` convert a place in the layout to a place in an arena. All
/// code identifies elements by their places in the layout.
///
/// Region over_batch has the parameters whose gradients are summed over the batch axes. Region
/// over_tensor has the parameters whose gradients are summed over the tensor axis as well, such as
/// a norm's weight under sequence shards. Within a region, parameters are stored unit by unit in
/// the order of the layers (a unit is a layer, or one copy within a repeat). Units are padded so
/// that any of them can be cut into a block for each batch rank. Region over_batch consists of
/// buckets, over_tensor is one bucket. After the regions the gradients have the accumulators of
/// tied uses.
struct parameter_layout {
  /// The regions: gradients summed over the batch axes; gradients summed over the batch axes and
  /// the tensor axis; frozen parameters.
  static constexpr int over_batch = 0, over_tensor = 1, frozen = 2;
  /// The value of parameter_base for a unit that the stage does not have.
  static constexpr std::size_t absent = ~std::size_t{0};

  lean_vector<entry_place> entries{};
  int units = 0;  ///< number of units of the model
  /// The offset of a unit's part of a region, at index base_of(region, unit).
  lean_vector<std::size_t> parameter_base{};
  std::array<element_range, 2> regions{};
  lean_vector<bucket> buckets{};  ///< buckets of trained parameters, in order
  lean_vector<bucket> frozen_buckets{};
  /// Places of the trained and frozen buckets in the parameters' arena, and of the trained buckets
  /// in the gradients' arena.
  stored_buckets parameters_at{}, gradients_at{};
  std::size_t frozen_count = 0;  ///< number of elements of frozen parameters
  std::size_t tied_count = 0;    ///< number of elements of the accumulators of tied uses
  /// If the blocks of buckets contain whole parameters (deal_parameters), the offset of parameter
  /// `entry` of `unit` at index unit * entries.size() + entry; otherwise empty.
  lean_vector<std::size_t> dealt{};

  /// Returns the offset of parameter `entry` of a unit; for a tied use, the owner's offset.
  [[nodiscard]] constexpr std::size_t offset(int entry, int unit) const {
    if (!dealt.empty()) return dealt[std::size_t(unit) * entries.size() + std::size_t(entry)];
    auto const& at = entries[std::size_t(entry)];
    return parameter_base[base_of(at.region, at.unit < 0 ? unit : at.unit)] + at.in_unit;
  }
  /// Returns true if the stage has the parameter.
  [[nodiscard]] constexpr bool has(int entry, int unit) const {
    auto const& at = entries[std::size_t(entry)];
    return parameter_base[base_of(at.region, at.unit < 0 ? unit : at.unit)] != absent;
  }
  /// Returns the offset of the gradient accumulator of use `entry` in `unit`.
  [[nodiscard]] constexpr std::size_t gradient_offset(int entry, int unit) const {
    auto const& at = entries[std::size_t(entry)];
    if (at.is_tied) return at.accumulator;
    return dealt.empty() ? parameter_base[base_of(at.region, unit)] + at.in_unit
                         : offset(entry, unit);
  }
  [[nodiscard]] constexpr std::size_t base_of(int region, int unit) const {
    return std::size_t(region) * std::size_t(units) + std::size_t(unit);
  }
  /// Returns the number of elements of both regions, padding included.
  [[nodiscard]] constexpr std::size_t count() const { return regions[over_tensor].end(); }
  /// Returns the number of elements of the parameters' arena: both regions and frozen parameters.
  [[nodiscard]] constexpr std::size_t kept_count() const { return count() + frozen_count; }
  /// Returns the range of the accumulators of tied uses in the layout.
  [[nodiscard]] constexpr element_range tied() const { return {count(), tied_count}; }
  /// Returns the number of elements of all gradients.
  [[nodiscard]] constexpr std::size_t gradient_count() const { return count() + tied_count; }
  /// Returns the place in an arena of element `offset` of the layout. The arena must have the whole
  /// region of this element.
  [[nodiscard]] constexpr std::size_t place_in(stored_buckets const& at, std::size_t offset) const {
    if (offset >= count()) return at.after_buckets + offset - count();
    auto const& last = regions[over_tensor];
    return last.count > 0 && offset >= last.offset
               ? at.base[buckets.size() - 1] + offset - last.offset
               : offset;
  }
  /// Returns a bucket by its number; frozen buckets are numbered after trained buckets.
  [[nodiscard]] constexpr bucket const& bucket_at(std::size_t number) const {
    return number < buckets.size() ? buckets[number] : frozen_buckets[number - buckets.size()];
  }
};

/// The parameters of a stage that a parameter_dealer moves.
struct parameters_to_deal {
  static_view<item> items;
  static_view<parameter_entry> entries;
  static_view<unit_range> chunks;
  std::size_t owners = 1;     ///< number of blocks into which each bucket is cut
  std::size_t alignment = 1;  ///< alignment of parameters, in elements
  /// The number of elements of a block is a multiple of this number.
  std::size_t block_multiple = 1;
};

/// Cuts a region into buckets, and returns them. The function visits the units of each chunk from
/// the last to the first, in the order of the backward, and ends a bucket as soon as it has `least`
/// elements. A unit that owns a tied parameter is a bucket of its own, because its gradient is
/// complete only when the gradients of all uses are. `layout` must already contain the offsets of
/// the units. Example: units 0 to 4 of 400 elements and `least` 1000 make the buckets 2 to 4 and 0
/// to 1.
[[gnu::cold]] constexpr lean_vector<bucket> cut_buckets(parameter_layout const& layout, int region,
                                                        element_range const& all,
                                                        static_view<unit_range> chunks,
                                                        lean_vector<int> const& owns_tied,
                                                        std::size_t least) {
  lean_vector<bucket> out;
  // Units are visited from the last one on, so each unit ends where the unit that was visited
  // before it begins.
  std::size_t end = all.end();
  for (int c = chunks.size() - 1; c >= 0; --c) {
    bucket open{.region = region};
    auto const close = [&] {
      if (open.elements.count > 0) out.push_back(open);
      open = {.region = region};
    };
    for (int unit = chunks[c].end - 1; unit >= chunks[c].begin; --unit) {
      std::size_t const begin = layout.parameter_base[layout.base_of(region, unit)];
      if (begin == end) continue;
      bool const is_alone = owns_tied[std::size_t(unit)] != 0;
      if (is_alone) close();
      if (open.elements.count == 0) open.units.end = unit + 1;
      open.units.begin = unit;
      open.elements = {begin, open.elements.count + end - begin};
      end = begin;
      if (is_alone || open.elements.count >= least) close();
    }
    close();
  }
  std::reverse(out.begin(), out.end());
  return out;
}

/// Returns the layout of the parameters of a stage.
///
/// `chunks`: chunks of the stage.
/// `batch_ranks`: number of blocks into which each unit must be divisible.
/// `alignment`: alignment of parameters, in elements.
/// `least_bucket`: least number of elements of a bucket in region over_batch; 0 makes the region
/// one bucket.
/// `cuts_frozen`: true if frozen parameters are cut as well.
/// `rules`: the rules by which optimizers own parameters.
/// `owners`: number of blocks into which each bucket is cut.
[[gnu::cold]] constexpr parameter_layout lay_out_parameters(
    static_view<item> items, static_view<parameter_entry> entries, static_view<unit_range> chunks,
    int batch_ranks, std::size_t alignment = parameter_alignment, std::size_t least_bucket = 0,
    bool cuts_frozen = false, parameter_rules const& rules = {}, std::size_t owners = 1) {
  auto const unit_multiple = alignment * static_cast<std::size_t>(batch_ranks);
  auto const at = [](int i) { return static_cast<std::size_t>(i); };
  parameter_layout out;
  out.entries.resize(at(entries.size()));
  // The number of elements of one unit of each item in each region.
  lean_vector<std::size_t> counts(3 * at(items.size()), 0);
  auto const count_of = [&](int region, int item) -> std::size_t& {
    return counts[at(region * items.size() + item)];
  };
  for (int e = 0; e < entries.size(); ++e) {
    auto const& entry = entries[e];
    auto& place = out.entries[at(e)];
    place.region = entry.is_frozen ? parameter_layout::frozen
                                   : (entry.reduced_over_tensor() ? parameter_layout::over_tensor
                                                                  : parameter_layout::over_batch);
    if (entry.owner >= 0) continue;
    auto& count = count_of(place.region, entry.item);
    place.in_unit = count;
    count += rounded_up(entry.local_count(), alignment);
  }
  out.units = count_units(items);
  out.parameter_base = lean_vector(3 * at(out.units), parameter_layout::absent);
  std::size_t next = 0;
  for (int const region :
       {parameter_layout::over_batch, parameter_layout::over_tensor, parameter_layout::frozen}) {
    std::size_t const begin = next;
    bool const is_frozen = region == parameter_layout::frozen;
    for (int i = 0; i < items.size(); ++i)
      for (auto const& chunk : chunks) {
        auto const here = overlap(items[i].units(), chunk);
        for (int unit = here.begin; unit < here.end; ++unit) {
          out.parameter_base[out.base_of(region, unit)] = next;
          auto const count = count_of(region, i);
          next += is_frozen && !cuts_frozen ? count : rounded_up(count, unit_multiple);
        }
      }
    if (is_frozen) out.frozen_count = next - begin;
    else out.regions[at(region)] = {begin, next - begin};
  }
  lean_vector<int> owns_tied(at(out.units), 0);
  for (int e = 0; e < entries.size(); ++e) {
    auto const& entry = entries[e];
    if (entry.owner < 0 || count_copies(items[entry.item], chunks) == 0) continue;
    auto& place = out.entries[at(e)];
    auto const& owner = out.entries[at(entry.owner)];
    place.region = owner.region;
    place.in_unit = owner.in_unit;
    place.unit = items[entries[entry.owner].item].first_unit;
    owns_tied[at(place.unit)] = 1;
    if (entry.is_frozen) continue;
    place.is_tied = true;
    place.accumulator = out.count() + out.tied_count;
    out.tied_count += rounded_up(entry.local_count(), alignment);
  }
  out.tied_count = rounded_up(out.tied_count, unit_multiple);
  unit_range const all{chunks[0].begin, chunks[chunks.size() - 1].end};
  auto const& [first, second] = out.regions;
  if (least_bucket > 0)
    out.buckets =
        cut_buckets(out, parameter_layout::over_batch, first, chunks, owns_tied, least_bucket);
  else if (first.count > 0) out.buckets.push_back({parameter_layout::over_batch, all, first});
  if (second.count > 0) out.buckets.push_back({parameter_layout::over_tensor, all, second});
  if (rules.deals_parameters && owners > 1)
    rules.deal(out, {items, entries, chunks, owners, alignment, unit_multiple / owners});
  element_range const frozen{out.count(), out.frozen_count};
  if (cuts_frozen)
    out.frozen_buckets =
        cut_buckets(out, parameter_layout::frozen, frozen, chunks, owns_tied, least_bucket);
  return out;
}

/// Calls action(element_range) for each range of gradients that one chunk of a stage has in a
/// layout: a range of each region, and a range for each tied use in the chunk.
template <class Action>
[[gnu::cold]] constexpr void for_each_gradient_range(parameter_layout const& layout,
                                                     static_view<item> items,
                                                     static_view<parameter_entry> entries,
                                                     static_view<unit_range> chunks, int chunk,
                                                     Action const& action) {
  for (int const region : {parameter_layout::over_batch, parameter_layout::over_tensor}) {
    auto const begin_of = [&](int number) {
      return number == chunks.size()
                 ? layout.regions[std::size_t(region)].end()
                 : layout.parameter_base[layout.base_of(region, chunks[number].begin)];
    };
    std::size_t const begin = begin_of(chunk), end = begin_of(chunk + 1);
    if (end > begin) action(element_range{begin, end - begin});
  }
  for (int e = 0; e < entries.size(); ++e)
    if (auto const& place = layout.entries[std::size_t(e)];
        place.is_tied && chunks[chunk].contains(items[entries[e].item].first_unit))
      action(element_range{place.accumulator, entries[e].local_count()});
}

/// Returns the number of elements of the longest masked parameter of a stage. A masked parameter is
/// one whose value only one tensor rank sees, while the others see zeros.
constexpr std::size_t longest_masked(static_view<item> items, auto const& entries,
                                     static_view<unit_range> chunks) {
  std::size_t longest = 0;
  for (auto const& entry : entries)
    if (entry.masked() && count_copies(items[entry.item], chunks) > 0)
      longest = std::max(longest, entry.local_count());
  return longest;
}

/// A range of elements of one bucket that a rank's optimizer owns, with its offsets in the
/// optimizer's state and in the arenas of parameters and gradients.
struct owned_block {
  element_range elements{};
  std::size_t state_offset = 0, parameters_at = 0, gradients_at = 0;
};

/// Returns this rank's blocks of buckets that are cut along the axes `cut`, or one block of all
/// buckets if no axis cuts them.
constexpr lean_vector<owned_block> blocks_of_buckets(lean_vector<bucket> const& buckets,
                                                     axis_set cut, mesh const& grid,
                                                     coordinates const& place) {
  auto const ranks = static_cast<std::size_t>(grid.size(cut));
  auto const mine = static_cast<std::size_t>(grid.block_of(place, cut));
  lean_vector<owned_block> out;
  std::size_t next = 0;
  for (auto const& one : buckets) {
    std::size_t const count = one.elements.count / ranks;
    std::size_t const begin = one.elements.offset + mine * count;
    if (ranks == 1 && !out.empty()) out[0].elements.count += count;
    else out.push_back({{begin, count}, next, begin, begin});
    next += count;
  }
  return out;
}

/// Returns the blocks of elements that a rank's optimizer owns, one for each bucket that is cut.
[[gnu::cold]] constexpr lean_vector<owned_block> owned_blocks(parameter_layout const& layout,
                                                              parameter_rules const& rules,
                                                              mesh const& grid,
                                                              coordinates const& place) {
  auto out = blocks_of_buckets(layout.buckets, rules.cut_axes(), grid, place);
  for (std::size_t b = 0; b < out.size(); ++b) {
    // An arena may hold a longer block than the rank owns; this code finds the owned part of it.
    auto const& whole = layout.buckets[b].elements;
    std::size_t const offset = out[b].elements.offset - whole.offset;
    auto const place_in = [&](stored_buckets const& at) {
      return at.base[b] + offset % (whole.count / at.blocks[b]);
    };
    out[b].parameters_at = place_in(layout.parameters_at);
    out[b].gradients_at = place_in(layout.gradients_at);
  }
  return out;
}

}  // namespace plait::planning
