// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "plait/placement/transition.hpp"
#include "plait/plan/model/program.hpp"

namespace plait::planning {

/// The kind of buffer that a value (or its gradient) is stored in.
enum class storage_kind : int {
  input,      ///< the item's input (or the gradient with respect to it), given by the caller
  output,     ///< the item's output (or the gradient with respect to it), given by the caller
  kept,       ///< a buffer that lives from the forward to the backward of one microbatch
  transient,  ///< a buffer that is used only while the item's pass runs
};

/// The place of one value: the buffer of value `root`, either from its start or, with `row_block`,
/// at this rank's block of its rows.
struct residence {
  storage_kind where = storage_kind::transient;
  int root = 0;
  bool row_block = false;
};

/// The places of all values of a program, and of their gradients, in buffers.
///
/// The memory of activations is small only if values share buffers. So a node of the program has no
/// buffer of its own if its result may replace its operand: a change of type, an all_reduce, the
/// selection of this rank's block of rows, the sum at the end of a residual, and layers that allow
/// it by `may_alias`. All values in one buffer have the same `root`, which is one of these values.
/// Example: in `relu(linear(x))` the root of relu's output is linear's output, so the two are one
/// buffer; relu saves only its output for the backward. A buffer that a backward reads later is not
/// overwritten; a buffer that a residual reads later is not overwritten before the residual has
/// read it.
template <int Values>
struct storage_plan {
  std::array<residence, static_cast<std::size_t>(Values)> values{};
  std::array<residence, static_cast<std::size_t>(Values)> gradients{};

  /// Returns true if the result of a node is stored in the place of its first operand.
  [[nodiscard]] constexpr bool shares_place(program_node const& of) const {
    auto const &in = values[static_cast<std::size_t>(of.in)],
               &out = values[static_cast<std::size_t>(of.out)];
    return in.where == out.where && in.root == out.root && in.row_block == out.row_block;
  }
};

/// Joins values that share a buffer into groups. Each group has a root value, whose entries in
/// `must_stay` and `readers` tell if nodes may overwrite the buffer.
template <int Values>
struct buffer_sharing {
  std::array<int, static_cast<std::size_t>(Values)> parent{};
  /// True if the value is a block of its parent's rows.
  std::array<bool, static_cast<std::size_t>(Values)> block{};
  /// True if the contents of the buffer must be kept for a backward.
  std::array<bool, static_cast<std::size_t>(Values)> must_stay{};
  /// The number of residuals that read the buffer later.
  std::array<int, static_cast<std::size_t>(Values)> readers{};
  static_view<bool> apart{};  ///< values that nothing may overwrite; may be empty

  constexpr buffer_sharing() {
    for (int i = 0; i < Values; ++i) parent[static_cast<std::size_t>(i)] = i;
  }
  [[nodiscard]] constexpr int root(int value) const {
    while (parent[static_cast<std::size_t>(value)] != value)
      value = parent[static_cast<std::size_t>(value)];
    return value;
  }
  [[nodiscard]] constexpr bool is_block(int value) const {
    for (; parent[static_cast<std::size_t>(value)] != value;
         value = parent[static_cast<std::size_t>(value)])
      if (block[static_cast<std::size_t>(value)]) return true;
    return false;
  }
  constexpr void put(int value, int into, bool as_block = false) {
    auto const mine = static_cast<std::size_t>(root(value));
    int const theirs = root(into);
    if (static_cast<int>(mine) == theirs) return;
    parent[mine] = as_block || is_block(into) ? into : theirs;
    block[mine] = as_block;
    auto const target = static_cast<std::size_t>(theirs);
    must_stay[target] = must_stay[target] || must_stay[mine];
    readers[target] += readers[mine];
  }
  [[nodiscard]] constexpr bool is_pinned(int value) const {
    return must_stay[static_cast<std::size_t>(root(value))];
  }
  /// Returns true if a node that reads the value may overwrite the value's buffer.
  [[nodiscard]] constexpr bool may_go(int value) const {
    return !is_pinned(value) && (apart.size() == 0 || !apart[value]);
  }
  constexpr int& readers_of(int value) { return readers[static_cast<std::size_t>(root(value))]; }
};

constexpr bool slices_rows(transition row) {
  return row.moves == local_move::slice && row.to.index == dim::sequence;
}

/// Merges the values of an item, from its first node to its last. First it marks the values that a
/// backward reads, which must stay. Then it puts the result of a node into the buffer of its
/// operand if the node allows it, the operand is not the item's input, and neither a backward nor a
/// residual reads the operand later. Example: the sum at the end of a residual is written over the
/// branch's last value, and the value that entered the residual is not overwritten.
template <int Leaves>
constexpr void share_values(program<Leaves> const& code, auto const& leaves, item const& piece,
                            buffer_sharing<program<Leaves>::most_values>& share) {
  auto keep = [&](int value) { share.must_stay[static_cast<std::size_t>(value)] = true; };
  for (int i = piece.first_node; i < piece.end_node; ++i) {
    auto const& now = code.nodes[i];
    if (now.kind != program_node_kind::leaf) continue;
    if (leaves[now.leaf].saved.keeps_input) {
      keep(now.in);
      for (int const more : now.more) keep(more);
    }
    if (leaves[now.leaf].saved.keeps_output) keep(now.out);
  }
  auto const from_outside = [&](int value) { return share.root(value) == piece.in; };
  // The item's output has a buffer of its own length, so it cannot be a block of a longer buffer.
  auto const fits = [&](int out, int in) { return out != piece.out || !share.is_block(in); };
  for (int i = piece.first_node; i < piece.end_node; ++i) {
    auto const& now = code.nodes[i];
    bool const leaves_item = now.out == piece.out && from_outside(now.in);
    switch (now.kind) {
      case program_node_kind::leaf:
        if (leaves[now.leaf].may_alias.forward && now.more.size() == 0 && !from_outside(now.in) &&
            share.may_go(now.in) && share.readers_of(now.in) == 0 && fits(now.out, now.in))
          share.put(now.out, now.in);
        break;
      case program_node_kind::move: {
        auto const row = row_of_move(code.values, now, direction::forward);
        bool const in_place = row.moves == collective::all_reduce && !from_outside(now.in) &&
                              !share.must_stay[static_cast<std::size_t>(now.in)] &&
                              (share.apart.size() == 0 || !share.apart[now.in]) &&
                              share.readers_of(now.in) == 0;
        if ((row.moves == local_move::none || in_place) && !leaves_item && fits(now.out, now.in))
          share.put(now.out, now.in);
        if (slices_rows(row) && now.out != piece.out) share.put(now.out, now.in, true);
        break;
      }
      case program_node_kind::branch:
        share.put(now.out, now.in);
        ++share.readers_of(now.in);
        break;
      case program_node_kind::fan_out:
        share.put(now.out, now.in);
        share.put(now.skip, now.in);
        ++share.readers_of(now.in);
        break;
      case program_node_kind::add:
        if (!from_outside(now.in) && share.may_go(now.in) && fits(now.out, now.in))
          share.put(now.out, now.in);
        break;
    }
  }
}

/// Joins the gradients of an item that share a buffer, in a walk from the item's last node to its
/// first. The gradient of a residual's sum is read twice: by the residual's branch and, at the
/// residual's beginning, by the node that adds both gradients. Until the walk has reached this
/// beginning, the second read is still to come, so no node of the branch overwrites the gradient.
template <int Leaves>
constexpr void share_gradients(program<Leaves> const& code, auto const& leaves, item const& piece,
                               buffer_sharing<program<Leaves>::most_values>& share) {
  // The gradients with respect to the item's input and to its output must be in different buffers.
  auto const merge = [&](int value, int into, bool as_block = false) {
    bool const reaches_input = share.root(value) == share.root(piece.in);
    bool const reaches_output = share.root(into) == share.root(piece.out);
    bool const fits = value != piece.in || !share.is_block(into);
    if (!(reaches_input && reaches_output) && fits) share.put(value, into, as_block);
  };
  for (int i = piece.end_node - 1; i >= piece.first_node; --i) {
    auto const& now = code.nodes[i];
    switch (now.kind) {
      case program_node_kind::leaf:
        if (leaves[now.leaf].may_alias.backward && now.more.size() == 0 && now.in != piece.in &&
            share.root(now.out) != share.root(piece.out) && share.readers_of(now.out) == 0)
          merge(now.in, now.out);
        break;
      case program_node_kind::move: {
        auto const back = row_of_move(code.values, now, direction::backward);
        bool const in_place =
            back.moves == collective::all_reduce && share.readers_of(now.out) == 0;
        if (back.moves == local_move::none || in_place) merge(now.in, now.out);
        if (slices_rows(back) && now.in != piece.in) merge(now.in, now.out, true);
        break;
      }
      case program_node_kind::add:
        merge(now.in, now.out);
        ++share.readers_of(now.out);
        break;
      case program_node_kind::fan_out:
        if (share.readers_of(now.out) == 0 && !share.is_block(now.out)) merge(now.in, now.out);
        break;
      case program_node_kind::branch:
        --share.readers_of(now.skip);
        if (share.readers_of(now.out) == 0 && share.root(now.out) != share.root(now.skip) &&
            !share.is_block(now.out))
          merge(now.in, now.out);
        break;
    }
  }
}

/// Determines which values share a buffer and how long each buffer is used. Returns a storage_plan.
/// The function walks forward over the nodes for values and backward for gradients.
///
/// `stays`: for each value, true if it must be kept although no layer saves it; may be empty.
/// `apart`: for each value, true if nothing may overwrite it; may be empty.
template <int Leaves>
constexpr auto plan_storage(program<Leaves> const& code, auto const& leaves,
                            static_view<bool> stays = {}, static_view<bool> apart = {}) {
  constexpr int most_values = program<Leaves>::most_values;
  storage_plan<most_values> out;
  buffer_sharing<most_values> values, gradients;
  for (int i = 0; i < stays.size(); ++i) values.must_stay[static_cast<std::size_t>(i)] = stays[i];
  values.apart = apart;
  for (auto const& piece : code.items) {
    share_values(code, leaves, piece, values);
    share_gradients(code, leaves, piece, gradients);
  }
  for (int i = 0; i < code.values.size(); ++i) {
    auto const& piece = code.items[code.values[i].item];
    auto const settle = [&](auto const& share, bool keeps) {
      int const root = share.root(i);
      storage_kind const where = root == share.root(piece.in)    ? storage_kind::input
                                 : root == share.root(piece.out) ? storage_kind::output
                                 : keeps && share.must_stay[static_cast<std::size_t>(root)]
                                     ? storage_kind::kept
                                     : storage_kind::transient;
      return residence{where, root, share.is_block(i)};
    };
    out.values[static_cast<std::size_t>(i)] = settle(values, true);
    out.gradients[static_cast<std::size_t>(i)] = settle(gradients, false);
  }
  return out;
}

}  // namespace plait::planning
