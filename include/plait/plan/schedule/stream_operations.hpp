// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/placement/transition.hpp"
#include "plait/plan/memory/storage.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::planning {

/// The waits between the nodes of one item, in one direction (forward or backward).
///
/// An item begins and ends on stream::compute: its input is ready there, and so are its results. So
/// no waits are needed between items, and the program of a step treats an item as one operation.
/// Within the item, only changes of placement that communicate run on another stream. Nodes are
/// numbered as in the program. `begin` represents the work before the item, `end` the work after
/// the item, and parameters_of(node) the computation of the gradients of a leaf's parameters, if it
/// is postponed. Example: an all_reduce of a layer's output waits for the layer, and the next layer
/// waits for the all_reduce.
template <int Steps>
struct item_waits {
  static constexpr int begin = -1;
  static constexpr int end = Steps;
  static constexpr int parameters_of(int node) { return end + 1 + node; }
  static_view<planned_wait> list{};

  /// Returns true if `node` waits for another node.
  [[nodiscard]] constexpr bool is_waiting(int node) const {
    for (auto const& wait : list)
      if (wait.waiting == node) return true;
    return false;
  }
  /// Returns true if another node waits for `node`.
  [[nodiscard]] constexpr bool is_awaited(int node) const {
    for (auto const& wait : list)
      if (wait.awaited == node) return true;
    return false;
  }
};

/// The waits of all items, in their order. One list has the waits of all items, so that its length
/// grows only with the length of the program.
template <int Waits, int Items>
struct program_waits {
  static_vector<planned_wait, Waits> list{};
  /// For each item, the index of its first wait.
  std::array<int, static_cast<std::size_t>(Items + 1)> first{};

  [[nodiscard]] constexpr static_view<planned_wait> of_item(int item) const {
    int const begin = first[std::size_t(item)], end = first[std::size_t(item + 1)];
    return {list.begin() + begin, end - begin};
  }
};

/// Returns the number of a value's buffer, or of its gradient's buffer, within the item that begins
/// with value `first`: 0 is the item's input, 1 its output, 2 the staging buffer of moves, and 3
/// and above are other buffers.
constexpr int buffer_in_item(auto const& storage, int first, int value, direction way) {
  auto const& where = way == direction::forward ? storage.values[std::size_t(value)]
                                                : storage.gradients[std::size_t(value)];
  // In the backward, an item reads the gradient with respect to its output, which is buffer 0.
  if (where.where == storage_kind::input) return way == direction::forward ? 0 : 1;
  if (where.where == storage_kind::output) return way == direction::forward ? 1 : 0;
  return 3 + where.root - first;
}

/// The operations of an item, and the buffers that they read and write, numbered as in
/// `buffer_in_item`.
template <class Code, class Storage>
struct item_operations {
  Code const& code;
  Storage const& storage;
  int first_value;
  lean_vector<stream_operation> list{};
  lean_vector<int> nodes{};  ///< number of the node of each operation
  int buffers = 3;
  bool has_streams = false;  ///< true if any operation runs on a stream other than compute

  constexpr int buffer(int value, direction way) {
    int const number = buffer_in_item(storage, first_value, value, way);
    buffers = std::max(buffers, number + 1);
    return number;
  }

  /// Returns an operation for the beginning or the end of the item's list. It represents all work
  /// outside of the item, earlier or later, which may touch each of the item's buffers.
  constexpr stream_operation edge() const {
    lean_vector<int> all;
    for (int i = 0; i < buffers; ++i) all.push_back(i);
    return {stream::compute, all, all};
  }

  constexpr void add_node(int index, direction way, auto const& leaves,
                          auto const& needs_gradient) {
    auto const& now = code.nodes[index];
    bool const forward = way == direction::forward;
    stream_operation made;
    auto const reads = [&](int value) {
      if (value >= 0) made.reads.push_back(buffer(value, way));
    };
    auto const writes = [&](int value) {
      if (value >= 0) made.writes.push_back(buffer(value, way));
    };
    bool const wanted = forward || needs_gradient[std::size_t(now.in)];
    if (!wanted && (now.kind != program_node_kind::leaf || !leaves[now.leaf].is_trained())) return;
    if (forward) {
      reads(now.in), writes(now.out);
      for (int const more : now.more) reads(more);
      if (now.kind == program_node_kind::add) reads(now.skip);
      if (now.kind == program_node_kind::fan_out) writes(now.skip);
    } else {
      reads(now.out);
      if (wanted) writes(now.in);
      for (int const more : now.more)
        if (wanted) writes(more);
      if (now.kind == program_node_kind::branch || now.kind == program_node_kind::fan_out)
        reads(now.skip);
    }
    if (now.kind == program_node_kind::move) {
      if (communicates(row_of_move(code.values, now, way).moves)) {
        made.on = within_layers;
        made.writes.push_back(2);
        has_streams = true;
      }
    }
    list.push_back(std::move(made));
    nodes.push_back(index);
  }

  /// Adds the operation that computes only the gradients of a leaf's parameters. No node reads
  /// these gradients.
  constexpr void add_parameters(int index, int number) {
    list.push_back({stream::compute, {buffer(code.nodes[index].out, direction::backward)}, {}});
    nodes.push_back(number);
  }
};

/// Returns true if the gradients of a leaf's parameters are computed after the next node of the
/// backward. That node sends the gradient with respect to the leaf's input over the tensor axis, so
/// stream::compute would otherwise be idle; Megatron overlaps the two in this way. Neither node may
/// overwrite the gradient with respect to the leaf's output, which is still needed then.
constexpr bool postpones_parameters(auto const& code, auto const& leaves, auto const& storage,
                                    auto const& needs_gradient, int index) {
  if (index < 1 || index >= code.nodes.size()) return false;
  auto const& now = code.nodes[index];
  auto const& next = code.nodes[index - 1];
  if (now.kind != program_node_kind::leaf || !leaves[now.leaf].is_trained() ||
      !leaves[now.leaf].has_halves() || now.more.size() > 0 ||
      next.kind != program_node_kind::move || next.out != now.in ||
      !needs_gradient[static_cast<std::size_t>(next.in)])
    return false;
  auto const row = row_of_move(code.values, next, direction::backward);
  auto const buffer = [&](int value) {
    return buffer_in_item(storage, 0, value, direction::backward);
  };
  return communicates(row.moves) && buffer(now.in) != buffer(now.out) &&
         buffer(next.in) != buffer(now.out);
}

/// Returns the waits that an item needs; see `item_waits`.
///
/// `code`, `storage`: program and places of a plan, as constants or in its plan_ir. `runs`: a
/// function that returns true for nodes that run; left out if all nodes run.
template <int Steps, class Code, class Storage, class Runs = std::nullptr_t>
constexpr lean_vector<planned_wait> plan_item_waits(Code const& code, auto const& leaves,
                                                    Storage const& storage,
                                                    auto const& needs_gradient, item const& piece,
                                                    direction way,
                                                    [[maybe_unused]] Runs runs = {}) {
  using waits = item_waits<Steps>;
  // Most items send nothing. Returning early saves work, which compilers limit.
  bool sends = false;
  for (int i = piece.first_node; i < piece.end_node && !sends; ++i)
    sends = code.nodes[i].kind == program_node_kind::move &&
            communicates(row_of_move(code.values, code.nodes[i], way).moves);
  if (!sends) return {};
  item_operations<Code, Storage> operations{code, storage, piece.in};
  operations.list.push_back({});
  operations.nodes.push_back(waits::begin);
  bool const forward = way == direction::forward;
  for (int n = 0; n < piece.end_node - piece.first_node; ++n) {
    int const i = forward ? piece.first_node + n : piece.end_node - 1 - n;
    if constexpr (!std::is_null_pointer_v<Runs>)
      if (!runs(i)) continue;
    operations.add_node(i, way, leaves, needs_gradient);
    if (!forward && n > 0 && postpones_parameters(code, leaves, storage, needs_gradient, i + 1))
      operations.add_parameters(i + 1, waits::parameters_of(i + 1));
  }
  if (!operations.has_streams) return {};
  operations.list.front() = operations.edge();
  operations.list.push_back(operations.edge());
  operations.nodes.push_back(waits::end);
  lean_vector<planned_wait> out;
  for (auto const& wait : plan_waits(operations.list))
    out.push_back(
        {operations.nodes[std::size_t(wait.waiting)], operations.nodes[std::size_t(wait.awaited)]});
  return out;
}

/// Returns true if two items have equal nodes on equal buffers in one direction, and therefore
/// equal waits. This is the case for most layers of a deep model, and the comparison costs
/// compilers less than the computation of the waits.
template <int Leaves>
constexpr bool have_same_waits(program<Leaves> const& code, auto const& leaves,
                               storage_plan<program<Leaves>::most_values> const& storage,
                               auto const& needs_gradient, item const& one, item const& other,
                               direction way) {
  if (one.end_node - one.first_node != other.end_node - other.first_node) return false;
  auto const same_value = [&](int a, int b) {
    if (a < 0 || b < 0) return a < 0 && b < 0;
    return a - one.in == b - other.in &&
           needs_gradient[std::size_t(a)] == needs_gradient[std::size_t(b)] &&
           buffer_in_item(storage, one.in, a, way) == buffer_in_item(storage, other.in, b, way);
  };
  for (int i = one.first_node, k = other.first_node; i < one.end_node; ++i, ++k) {
    auto const &a = code.nodes[i], &b = code.nodes[k];
    if (a.kind != b.kind || !same_value(a.in, b.in) || !same_value(a.out, b.out) ||
        !same_value(a.skip, b.skip) || a.more.size() != b.more.size())
      return false;
    for (int m = 0; m < a.more.size(); ++m)
      if (!same_value(a.more[m], b.more[m])) return false;
    if (a.kind == program_node_kind::leaf &&
        leaves[a.leaf].is_trained() != leaves[b.leaf].is_trained())
      return false;
    if (a.kind == program_node_kind::move &&
        row_of_move(code.values, a, way).moves != row_of_move(code.values, b, way).moves)
      return false;
  }
  return true;
}

/// The number of items in a block. The waits of a block are one constant, because compilers limit
/// the work for one constant.
inline constexpr int items_of_block = 64;

/// Returns the waits of the items of block number `block`; for all other items the result has no
/// waits. An operation waits for at most one operation of each other stream.
template <int Steps, int Items, int Leaves>
constexpr auto plan_block_waits(program<Leaves> const& code, auto const& leaves,
                                storage_plan<program<Leaves>::most_values> const& storage,
                                auto const& needs_gradient, direction way, int block) {
  using waits = item_waits<program<Leaves>::most_nodes>;
  // The number of planned items with which an item is compared. It is enough for models whose items
  // repeat, and comparing unlike items costs little.
  constexpr int remembered = 8;
  program_waits<2 * Steps + 2 * Items, Items> out;
  lean_vector<int> planned;  // items whose own waits were planned, because no recent item is alike
  auto const first = [&](int item) { return code.items[item].first_node; };
  auto const push = [&](planned_wait const& wait, int shift) {
    auto const here = [shift](int node) {
      return node == waits::begin || node == waits::end ? node : node + shift;
    };
    out.list.push_back({here(wait.waiting), here(wait.awaited)});
  };
  for (int i = block * items_of_block; i < Items && i < (block + 1) * items_of_block; ++i) {
    int like = -1;
    for (std::size_t p = planned.size(); like < 0 && p-- > 0 && p + remembered >= planned.size();)
      if (have_same_waits(code, leaves, storage, needs_gradient, code.items[planned[p]],
                          code.items[i], way))
        like = planned[p];
    if (like < 0) {
      planned.push_back(i);
      for (auto const& wait : plan_item_waits<program<Leaves>::most_nodes>(
               code, leaves, storage, needs_gradient, code.items[i], way))
        push(wait, 0);
    } else {
      for (int w = out.first[std::size_t(like)]; w < out.first[std::size_t(like + 1)]; ++w)
        push(out.list[w], first(i) - first(like));
    }
    out.first[std::size_t(i + 1)] = out.list.size();
  }
  return out;
}

/// Returns the waits of all items, joined from the waits of all blocks.
template <class Waits>
constexpr Waits join_waits(std::initializer_list<Waits const*> blocks, int items) {
  Waits out;
  int item = 0;
  for (Waits const* const block : blocks) {
    for (auto const& wait : block->list) out.list.push_back(wait);
    int const before = out.first[std::size_t(item)];
    for (int i = 0; i < items_of_block && item < items; ++i, ++item)
      out.first[std::size_t(item + 1)] = before + block->first[std::size_t(item + 1)];
  }
  return out;
}

}  // namespace plait::planning
