// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "plait/plan/parameter_plan.hpp"
#include "plait/plan/program.hpp"
#include "plait/plan/stage_split.hpp"
#include "plait/plan/storage.hpp"

namespace plait {

/// Buffers begin at multiples of this many bytes.
inline constexpr std::size_t alignment_bytes = 64;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

/// Where everything that flows lies, for microbatches of a given number of rows.
///
/// A copy of an item has a record of what it keeps for its backward: its output, kept values and
/// saved slots. Offsets are in bytes from the start of the record; transient buffers of all items
/// begin at the same place.
template <int Leaves>
struct activation_layout {
  static constexpr auto values = static_cast<std::size_t>(program<Leaves>::most_values);
  static constexpr auto items = static_cast<std::size_t>(2 * Leaves + 1);
  using slots = std::array<std::size_t, slots_info::most_slots>;

  std::array<std::size_t, values> value_offset{};     ///< of kept and transient roots
  std::array<std::size_t, values> gradient_offset{};  ///< of transient roots
  std::array<slots, static_cast<std::size_t>(Leaves)> saved_offset{};
  std::array<slots, static_cast<std::size_t>(Leaves)> scratch_offset{};
  std::array<std::size_t, items> record_bytes{};
  std::array<std::size_t, items> output_bytes{};  ///< of the item's output, first in its record
  std::array<std::size_t, items> input_bytes{};
  std::size_t staging_offset = 0;  ///< where moves pack what they send
  std::size_t transient_bytes = 0;
};

/// Rows and columns of the local block of a value.
struct block_shape {
  std::size_t rows = 0, columns = 0;
  [[nodiscard]] constexpr std::size_t count() const { return rows * columns; }
};

/// The local block of a value of `rows` rows on one of `ranks` ranks.
constexpr block_shape local_block(value const& what, std::size_t rows, int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  bool const cut = is_shard(what.at);
  bool const by_rows = cut && what.at.index == dim::sequence;
  return {by_rows ? rows / p : rows, cut && !by_rows ? what.info.width / p : what.info.width};
}

/// Values of a slot for `rows` whole rows, for a layer in form `form`.
constexpr std::size_t slot_count(slot_info const& slot, form_info const& form, std::size_t rows,
                                 int ranks) {
  auto const p = static_cast<std::size_t>(ranks);
  auto const cut = [&](int dimension) {
    return (is_shard(form.input) && form.input.index == dimension) ||
           (is_shard(form.output) && form.output.index == dimension);
  };
  std::size_t const local_rows = cut(dim::sequence) ? rows / p : rows;
  std::size_t const columns =
      slot.follows_features && cut(dim::features) ? slot.per_row / p : slot.per_row;
  return local_rows * columns + slot.fixed;
}

/// Lays out the activations of microbatches of `rows` rows with elements of `element_bytes`, and of
/// `slot_bytes` in what layers keep for themselves.
template <int Leaves>
constexpr activation_layout<Leaves> lay_out_activations(
    program<Leaves> const& code, auto const& leaves,
    storage_plan<program<Leaves>::most_values> const& storage, std::size_t rows, int ranks,
    std::size_t element_bytes, std::size_t slot_bytes) {
  activation_layout<Leaves> out;
  auto const bytes_of = [&](int index) {
    auto const& what = code.values[index];
    std::size_t const each =
        what.info.kind == value_kind::tokens ? sizeof(std::int32_t) : element_bytes;
    return aligned(local_block(what, rows, ranks).count() * each);
  };
  std::size_t staging = 0;
  for (int i = 0; i < code.items.size(); ++i) {
    auto const& piece = code.items[i];
    auto const at = static_cast<std::size_t>(i);
    std::size_t kept = bytes_of(piece.out), forward = 0, backward = 0;
    out.output_bytes[at] = kept;
    out.input_bytes[at] = bytes_of(piece.in);
    // A root's buffer must hold every value in it; a root is never smaller than its row blocks.
    for (int v = 0; v < code.values.size(); ++v) {
      if (code.values[v].item != i) continue;
      auto const place = [&](residence const& where, std::size_t& offset, std::size_t& transient) {
        if (where.root != v) return;
        if (where.where == home::kept) offset = kept, kept += bytes_of(v);
        if (where.where == home::transient) offset = transient, transient += bytes_of(v);
      };
      auto const index = static_cast<std::size_t>(v);
      place(storage.values[index], out.value_offset[index], forward);
      place(storage.gradients[index], out.gradient_offset[index], backward);
    }
    for (int leaf = piece.first_leaf; leaf < piece.end_leaf; ++leaf) {
      auto const place = [&](slots_info const& info, auto& offsets, auto&& add) {
        for (int k = 0; k < info.own_count; ++k) {
          auto const index = static_cast<std::size_t>(k);
          offsets[index] =
              add(aligned(slot_bytes * slot_count(info.own[index], code.forms[leaf], rows, ranks)));
        }
      };
      place(leaves[leaf].saved, out.saved_offset[static_cast<std::size_t>(leaf)],
            [&](std::size_t bytes) { return std::exchange(kept, kept + bytes); });
      std::size_t both = std::max(forward, backward);
      place(leaves[leaf].scratch, out.scratch_offset[static_cast<std::size_t>(leaf)],
            [&](std::size_t bytes) { return std::exchange(both, both + bytes); });
      // Scratch lies above what either pass uses; two leaves never use theirs at once, but a later
      // one may have more values below it.
      forward = backward = both;
    }
    for (int s = piece.first_step; s < piece.end_step; ++s)
      if (code.steps[s].kind == step_kind::move)
        staging = std::max({staging, bytes_of(code.steps[s].in), bytes_of(code.steps[s].out)});
    out.record_bytes[at] = kept;
    out.transient_bytes = std::max({out.transient_bytes, forward, backward});
  }
  out.staging_offset = out.transient_bytes;
  out.transient_bytes += staging;
  return out;
}

/// Where the parameters of one stage lie in its flat arena, in elements. Gradients and optimizer
/// state lie in arenas of the same layout.
///
/// First come the parameters whose gradients are reduced over the data axis, then those reduced
/// over the data and the tensor axis: each set is one contiguous all_reduce. Within a set they
/// stand in the order of the layers. Behind the parameters, in the gradients' arena alone, are the
/// accumulators of tied uses.
template <int Leaves>
struct parameter_layout {
  static constexpr auto entries = static_cast<std::size_t>(Leaves * form_info::most_parameters);
  std::array<std::size_t, entries> offset{};           ///< of the stage's first copy
  std::array<std::size_t, entries> gradient_offset{};  ///< the same, but of the use's accumulator
  std::array<std::size_t, entries> stride{};           ///< from one copy to the next
  std::array<item_range, static_cast<std::size_t>(2 * Leaves + 1)> copies{};
  std::size_t data_count = 0;         ///< elements reduced over the data axis
  std::size_t data_tensor_count = 0;  ///< elements reduced over the data and tensor axes
  std::size_t tied_count = 0;         ///< elements of accumulators of tied uses
  std::size_t masked_count = 0;       ///< elements of the longest masked parameter

  [[nodiscard]] constexpr std::size_t count() const { return data_count + data_tensor_count; }
};

template <int Leaves>
constexpr parameter_layout<Leaves> lay_out_parameters(program<Leaves> const& code,
                                                      auto const& entries, unit_range units) {
  parameter_layout<Leaves> out;
  for (int i = 0; i < code.items.size(); ++i)
    out.copies[static_cast<std::size_t>(i)] = copies_in(code, i, units);
  std::size_t next = 0;
  for (bool const over_tensor : {false, true}) {
    for (int i = 0; i < code.items.size(); ++i) {
      std::size_t copy_count = 0;
      for (int e = 0; e < entries.size(); ++e) {
        auto const at = static_cast<std::size_t>(e);
        if (entries[e].item != i || entries[e].owner >= 0 ||
            entries[e].reduced_over_tensor() != over_tensor)
          continue;
        out.offset[at] = out.gradient_offset[at] = next + copy_count;
        copy_count += entries[e].local_count();
      }
      for (int e = 0; e < entries.size(); ++e)
        if (entries[e].item == i && entries[e].owner < 0 &&
            entries[e].reduced_over_tensor() == over_tensor)
          out.stride[static_cast<std::size_t>(e)] = copy_count;
      next += copy_count * static_cast<std::size_t>(out.copies[static_cast<std::size_t>(i)].copies);
    }
    if (!over_tensor) out.data_count = next;
  }
  out.data_tensor_count = next - out.data_count;
  for (int e = 0; e < entries.size(); ++e) {
    auto const at = static_cast<std::size_t>(e);
    bool const here = out.copies[static_cast<std::size_t>(entries[e].item)].copies > 0;
    if (here && entries[e].masked())
      out.masked_count = std::max(out.masked_count, entries[e].local_count());
    if (entries[e].owner < 0 || !here) continue;
    out.offset[at] = out.offset[static_cast<std::size_t>(entries[e].owner)];
    out.gradient_offset[at] = out.count() + out.tied_count;
    out.tied_count += entries[e].local_count();
  }
  return out;
}

}  // namespace plait
