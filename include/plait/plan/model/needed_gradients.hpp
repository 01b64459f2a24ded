// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "plait/core/namespaces.hpp"
#include "plait/layer/value.hpp"
#include "plait/plan/model/program.hpp"

namespace plait::planning {

/// Finds the values whose gradients are computed: the values that depend on a trained parameter.
/// Returns a flag for each value. The copies of a repeat share their nodes, so the input of the
/// first copy has a gradient if the inputs of the other copies have one.
template <int Leaves>
constexpr auto find_needed_gradients(program<Leaves> const& code, auto const& leaves) {
  std::array<bool, std::size_t(program<Leaves>::most_values)> out{};
  auto const needed = [&out](int value) -> bool& { return out[std::size_t(value)]; };
  for (int i = 0; i < code.items.size(); ++i) {
    auto const& piece = code.items[i];
    bool from = i > 0 && needed(code.items[i - 1].out);
    if (piece.repeated && piece.count > 1)
      for (int leaf = piece.first_leaf; leaf < piece.end_leaf; ++leaf)
        from = from || leaves[leaf].is_trained();
    needed(piece.in) = from && code.values[piece.in].info.kind == value_kind::features;
    for (int s = piece.first_node; s < piece.end_node; ++s) {
      auto const& now = code.nodes[s];
      bool made = needed(now.in);
      if (now.kind == program_node_kind::leaf) {
        // A layer has gradients for all of its inputs or for none.
        for (int const more : now.more) made = made || needed(more);
        if (now.more.size() > 0) needed(now.in) = made;
        for (int const more : now.more) needed(more) = made;
        made = (made || leaves[now.leaf].is_trained()) &&
               code.values[now.out].info.kind == value_kind::features;
      }
      if (now.kind == program_node_kind::add) made = made || needed(now.skip);
      if (now.kind == program_node_kind::fan_out) needed(now.skip) = made;
      needed(now.out) = made;
    }
  }
  return out;
}

}  // namespace plait::planning
