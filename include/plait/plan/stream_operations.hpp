// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "plait/core/static_vector.hpp"
#include "plait/placement/transition.hpp"
#include "plait/plan/program.hpp"
#include "plait/plan/storage.hpp"
#include "plait/plan/synchronization.hpp"

namespace plait::planning {

/// The waits between the steps of one item, in one direction.
///
/// What an item is given is ready on stream compute, and it leaves everything so: between items
/// there is nothing to wait for. The steps are numbered as in the program; `begin` stands for what
/// came before the item, `end` for what comes after it, and parameters_of(step) for the gradients
/// of a leaf's parameters, where they are postponed.
template <int Steps>
struct item_waits {
  static constexpr int begin = -1;
  static constexpr int end = Steps;
  static constexpr int parameters_of(int step) { return end + 1 + step; }
  static constexpr int most_operations = 2 * Steps + 2;
  static_vector<planned_wait, most_operations> list{};

  /// True if something waits for `step`.
  [[nodiscard]] constexpr bool is_awaited(int step) const {
    for (auto const& wait : list)
      if (wait.awaited == step) return true;
    return false;
  }
};

/// What the steps of an item touch. Buffers are numbered: 0 what the item is given, 1 what it
/// makes, 2 the staging of moves, 3 + root any other.
template <int Leaves>
struct item_operations {
  program<Leaves> const& code;
  storage_plan<program<Leaves>::most_values> const& storage;
  std::vector<stream_operation> list{};
  std::vector<int> steps{};  ///< of each operation

  constexpr int buffer(int value, direction way) const {
    auto const& where = way == direction::forward ? storage.values[std::size_t(value)]
                                                  : storage.gradients[std::size_t(value)];
    // Backward, the input of the item is the gradient of its output.
    if (where.where == home::input) return way == direction::forward ? 0 : 1;
    if (where.where == home::output) return way == direction::forward ? 1 : 0;
    return 3 + where.root;
  }

  constexpr void add_edge(int step) {
    std::vector<int> all;
    for (int i = 0; i < 3 + code.values.size(); ++i) all.push_back(i);
    list.push_back({stream::compute, all, all});
    steps.push_back(step);
  }

  constexpr void add_step(int index, direction way, auto const& leaves,
                          auto const& needs_gradient) {
    auto const& now = code.steps[index];
    bool const forward = way == direction::forward;
    stream_operation made;
    auto const reads = [&](int value) {
      if (value >= 0) made.reads.push_back(buffer(value, way));
    };
    auto const writes = [&](int value) {
      if (value >= 0) made.writes.push_back(buffer(value, way));
    };
    bool const wanted = forward || needs_gradient[std::size_t(now.in)];
    if (!wanted && (now.kind != step_kind::leaf || !leaves[now.leaf].is_trained())) return;
    if (forward) {
      reads(now.in), writes(now.out);
      if (now.kind == step_kind::leaf) reads(now.second);
      if (now.kind == step_kind::add) reads(now.skip);
      if (now.kind == step_kind::fan_out) writes(now.skip);
    } else {
      reads(now.out);
      if (wanted) writes(now.in);
      if (wanted && now.kind == step_kind::leaf) writes(now.second);
      if (now.kind == step_kind::branch || now.kind == step_kind::fan_out) reads(now.skip);
    }
    if (now.kind == step_kind::move) {
      if (communicates(row_of_move(code.values, now, way).moves)) {
        made.on = within_layers;
        made.writes.push_back(2);
      }
    }
    list.push_back(std::move(made));
    steps.push_back(index);
  }

  /// The gradients of a leaf's parameters alone: they are added to where no step looks.
  constexpr void add_parameters(int index, int number) {
    list.push_back({stream::compute, {buffer(code.steps[index].out, direction::backward)}, {}});
    steps.push_back(number);
  }
};

/// Whether the gradients of a leaf's parameters are computed behind the next step of the backward:
/// while that step sends the gradient of the leaf's input over the tensor axis.
///
/// The gradient of the leaf's output must still be there then.
template <int Leaves>
constexpr bool postpones_parameters(program<Leaves> const& code, auto const& leaves,
                                    storage_plan<program<Leaves>::most_values> const& storage,
                                    auto const& needs_gradient, int index) {
  if (index < 1 || index >= code.steps.size()) return false;
  auto const& now = code.steps[index];
  auto const& next = code.steps[index - 1];
  if (now.kind != step_kind::leaf || !leaves[now.leaf].is_trained() || now.second >= 0 ||
      next.kind != step_kind::move || next.out != now.in ||
      !needs_gradient[static_cast<std::size_t>(next.in)])
    return false;
  auto const row = row_of_move(code.values, next, direction::backward);
  item_operations<Leaves> const in{code, storage};
  auto const buffer = [&](int value) { return in.buffer(value, direction::backward); };
  return communicates(row.moves) && buffer(now.in) != buffer(now.out) &&
         buffer(next.in) != buffer(now.out);
}

/// The waits that an item needs; see `item_waits`.
template <int Leaves>
constexpr auto plan_item_waits(program<Leaves> const& code, auto const& leaves,
                               storage_plan<program<Leaves>::most_values> const& storage,
                               auto const& needs_gradient, item const& piece, direction way) {
  using waits = item_waits<program<Leaves>::most_steps>;
  item_operations<Leaves> operations{code, storage};
  operations.add_edge(waits::begin);
  if (way == direction::forward) {
    for (int i = piece.first_step; i < piece.end_step; ++i)
      operations.add_step(i, way, leaves, needs_gradient);
  } else {
    for (int i = piece.end_step - 1; i >= piece.first_step; --i) {
      operations.add_step(i, way, leaves, needs_gradient);
      if (i + 1 < piece.end_step &&
          postpones_parameters(code, leaves, storage, needs_gradient, i + 1))
        operations.add_parameters(i + 1, waits::parameters_of(i + 1));
    }
  }
  operations.add_edge(waits::end);
  waits out;
  for (auto const& wait : plan_waits(operations.list))
    out.list.push_back(
        {operations.steps[std::size_t(wait.waiting)], operations.steps[std::size_t(wait.awaited)]});
  return out;
}

}  // namespace plait::planning
