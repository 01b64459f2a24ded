// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "plait/core/random_normal.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/move.hpp"

namespace plait::execution {

/// One parameter of a rank's stage: which it is, and where its block lies in the arenas.
struct local_parameter {
  int entry = 0;
  int copy = 0;    ///< of the repeat, counted from the model's first
  int number = 0;  ///< among all parameters of the model
  std::string name;
  std::size_t offset = 0;  ///< in elements
  std::size_t count = 0;
};

/// The elements of a parameter's block that lie in `range` of the arena.
constexpr element_range overlap(element_range const& range, local_parameter const& parameter) {
  std::size_t const begin = std::max(range.offset, parameter.offset);
  std::size_t const end = std::min(range.end(), parameter.offset + parameter.count);
  return {begin, begin < end ? end - begin : 0};
}

/// The full name of a parameter: the star of a repeat becomes the copy's number.
[[gnu::cold]] inline std::string name_of_copy(std::string pattern, int copy) {
  if (auto const star = pattern.find('*'); star != std::string::npos)
    pattern.replace(star, 1, std::to_string(copy));
  return pattern;
}

/// The parameters that a stage has, in the order of the layers; `grid` is the mesh with all its
/// sizes.
template <class Plan>
[[gnu::cold]] std::vector<local_parameter> parameters_of_stage(int stage, mesh const& grid) {
  auto const names = parameter_names(Plan::tree, Plan::entries);
  auto const layout = Plan::parameter_layout_for(stage, grid);
  std::vector<local_parameter> out;
  for (int item = 0; item < Plan::code.items.size(); ++item) {
    auto const range = layout.copies[std::size_t(item)];
    for (int k = 0; k < range.copies; ++k)
      for (int e = 0; e < Plan::entries.size(); ++e) {
        auto const& entry = Plan::entries[e];
        if (entry.item != item || entry.owner >= 0) continue;
        int const copy = range.first_copy + k;
        out.push_back(
            {e, copy, Plan::parameter_number(e, copy), name_of_copy(names[std::size_t(e)], copy),
             layout.offset[std::size_t(e)] + layout.stride[std::size_t(e)] * std::size_t(k),
             entry.local_count()});
      }
  }
  return out;
}

/// A stored parameter in the words of activations, as `move_value` takes it: a matrix that is cut
/// by rows is one long row that is cut by features, so that `parts` mean the same for both.
constexpr placement as_value_placement(parameter_entry const& entry) {
  return is_shard(entry.stored)
             ? placement{placement_kind::shard, dim::features, entry.stored.parts}
             : entry.stored;
}
/// The shape of the whole parameter in the same words.
constexpr whole_shape as_value_shape(parameter_entry const& entry) {
  bool const cut_rows = is_shard(entry.stored) && entry.info.rank == 2 && entry.stored.index == 0;
  return cut_rows ? whole_shape{1, entry.info.count()}
                  : whole_shape{entry.info.rows, entry.info.columns};
}

/// Calls body.operator()<entry>() for the entry with number `entry`.
template <class Plan, class Body>
void with_entry(int entry, Body body) {
  [&]<std::size_t... E>(std::index_sequence<E...>) {
    ((static_cast<int>(E) == entry ? body.template operator()<static_cast<int>(E)>() : void()),
     ...);
  }(std::make_index_sequence<std::size_t(Plan::entries.size())>{});
}

/// Calls action(place in the whole matrix, place in the block, length) for each run of elements of
/// a rank's block that lie together.
template <class Action>
void for_each_run(parameter_entry const& entry, int tensor_rank, int ranks, Action action) {
  auto const shape = as_value_shape(entry);
  auto const r = static_cast<std::size_t>(tensor_rank);
  bool const cut = is_shard(entry.stored);
  auto const parts = static_cast<std::size_t>(cut ? entry.stored.parts : 1);
  std::size_t const part = shape.width / parts;
  std::size_t const piece = cut ? part / static_cast<std::size_t>(ranks) : part;
  for (std::size_t row = 0; row < shape.rows; ++row)
    for (std::size_t g = 0; g < parts; ++g)
      action(row * shape.width + g * part + (cut ? r * piece : 0), (row * parts + g) * piece,
             piece);
}

/// Writes the first value of a parameter's block: a function of the seed, the parameter and the
/// global index of each element, so that every plan starts from the same weights. Padding is at the
/// end of the whole parameter, so it changes no index; it starts as zeros.
///
/// Threads: a large block is cut in up to `threads` pieces, each made by a thread of its own; the
///          values do not depend on it.
template <class T>
[[gnu::cold]] void initial_values(parameter_entry const& entry, int number, std::uint64_t seed,
                                  int tensor_rank, int ranks, std::span<T> block,
                                  std::size_t threads = 1) {
  random_key const key{seed, static_cast<std::uint32_t>(number), 0xffffffffu};
  double const scale = entry.info.initial.number();
  bool const is_constant = entry.info.initial.how == initializer::kind::constant;
  std::size_t const end = entry.info.unpadded().count();
  auto const make = [&](element_range piece) {
    for_each_run(entry, tensor_rank, ranks,
                 [&](std::size_t global, std::size_t local, std::size_t length) {
                   std::size_t const begin = std::max(local, piece.offset);
                   std::size_t const stop = std::min(local + length, piece.end());
                   if (begin >= stop) return;
                   std::size_t const first = global + (begin - local);
                   auto const out = block.subspan(begin, stop - begin);
                   auto const valid = out.first(std::min(out.size(), end - std::min(end, first)));
                   if (is_constant) std::fill(valid.begin(), valid.end(), static_cast<T>(scale));
                   else random_normals(key, first, scale, valid);
                   std::fill(valid.end(), out.end(), static_cast<T>(0.0));
                 });
  };
  constexpr std::size_t worth_a_thread = std::size_t{1} << 15;  // 0.2 ms
  std::size_t const count = std::max(worth_a_thread, (block.size() + threads - 1) / threads);
  std::vector<std::jthread> others;
  for (std::size_t begin = count; begin < block.size(); begin += count) {
    element_range const piece{begin, std::min(count, block.size() - begin)};
    try {
      others.emplace_back(make, piece);
    } catch (std::system_error const&) {  // no thread to be had
      make(piece);
    }
  }
  make({0, std::min(count, block.size())});
}

/// How many elements at the end of a rank's block are padding; the first dimension is cut in one
/// part if at all.
[[nodiscard]] constexpr std::size_t padding_of_block(parameter_entry const& entry,
                                                     int tensor_rank) {
  auto const& info = entry.info;
  bool const is_matrix = info.rank == 2;
  // Padding is the end of the first dimension; the rest of a row may be cut.
  bool const cut = is_shard(entry.stored) && entry.stored.index == 0;
  std::size_t const held = is_matrix ? entry.local_rows : entry.local_columns;
  std::size_t const end = info.length(0) - info.padding;
  std::size_t const first = cut ? held * static_cast<std::size_t>(tensor_rank) : 0;
  std::size_t const valid = end <= first ? 0 : std::min(end - first, held);
  return (held - valid) * (is_matrix ? entry.local_columns : 1);
}

/// Copies a rank's block out of a whole parameter without its padding, which becomes zeros.
template <class T>
void take_block(parameter_entry const& entry, int tensor_rank, int ranks, std::span<T const> values,
                std::span<T> block) {
  std::size_t const end = entry.info.unpadded().count();
  for_each_run(entry, tensor_rank, ranks,
               [&](std::size_t from, std::size_t to, std::size_t length) {
                 for (std::size_t i = 0; i < length; ++i)
                   block[to + i] = from + i < end ? values[from + i] : T{0};
               });
}

}  // namespace plait::execution

namespace plait {

using execution::local_parameter;
using execution::parameters_of_stage;

}  // namespace plait
