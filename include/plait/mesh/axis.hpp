// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <string>

#include "plait/core/namespaces.hpp"
#include "plait/core/static_vector.hpp"

namespace plait {

/// The roles that an axis of a mesh may have. The typing rules depend on the role of an axis, so
/// programs cannot add roles; they add policies. `within<K>` adds the axis `replica`. plait has no
/// policy along `context` or `expert` yet; a program's policy may have forms along one of them.
///
/// Example (tests/reference/names_in_use_test.cpp axis):
///     static_assert(in_all_ways::plan().bytes_sent(plait::axis::tensor, {.rows = 16}).total() >
///                   0);
enum class axis : int { data, tensor, stage, replica, context, expert };

constexpr char const* to_string(axis which) {
  constexpr std::array words{"data", "tensor", "stage", "replica", "context", "expert"};
  return words[static_cast<std::size_t>(which)];
}

}  // namespace plait

namespace plait::ext {

/// The number of roles.
inline constexpr std::size_t axis_count = std::size_t(axis::expert) + 1;

/// All roles, in the order of the enumerators.
inline constexpr auto all_axes = [] {
  std::array<axis, axis_count> all{};
  for (std::size_t i = 0; i < axis_count; ++i) all[i] = static_cast<axis>(i);
  return all;
}();

/// A set of axes, over which ranks may be grouped; it can be a template argument.
struct axis_set {
  unsigned bits = 0;

  constexpr axis_set() = default;
  constexpr axis_set(axis which) : bits(1u << static_cast<int>(which)) {}  // NOLINT: implicit
  [[nodiscard]] constexpr bool contains(axis which) const {
    return (bits & axis_set(which).bits) != 0;
  }
  [[nodiscard]] constexpr bool empty() const { return bits == 0; }
  [[nodiscard]] constexpr int count() const { return std::popcount(bits); }
  friend constexpr axis_set operator|(axis_set a, axis_set b) {
    axis_set both;
    both.bits = a.bits | b.bits;
    return both;
  }
  friend constexpr bool operator==(axis_set, axis_set) = default;
  friend constexpr auto operator<=>(axis_set, axis_set) = default;
};

}  // namespace plait::ext

namespace plait {

constexpr ext::axis_set operator|(axis a, axis b) { return ext::axis_set(a) | ext::axis_set(b); }

}  // namespace plait

namespace plait::ext {

/// The number of possible sets of axes. The `bits` of each set are below this number.
inline constexpr std::size_t axis_set_count = std::size_t{1} << axis_count;

/// The axes whose ranks have different samples: a sum over samples is a sum over these axes.
inline constexpr axis_set batch_axes = axis::replica | axis::data;

/// The axes along which the forms of layers may divide the work of each layer: the ranks of a group
/// have the same samples, and each computes its block of the features, heads or positions. Such an
/// axis is called a model axis, and its ranks are called tensor ranks, after the axis of
/// `tensor_parallel`. A mesh has at most one model axis, see mesh::model_axis.
inline constexpr axis_set model_axes = axis::tensor | axis::context | axis::expert;

/// All axes. The group over them has all ranks of the job.
inline constexpr axis_set world_axes = [] {
  axis_set all;
  for (axis const which : all_axes) all = all | which;
  return all;
}();

/// Returns the order in which elements are cut along several axes, independent of the order of the
/// axes in the mesh: elements are cut into blocks along the first axis, and each block is cut into
/// blocks along the next. Sums are scattered in this order, and blocks are gathered in the opposite
/// order; `mesh::block_of` numbers the blocks. For example, with data 4 and replica 2 the elements
/// are cut into 4 blocks along data, and each into 2 along replica: the rank with data 1 and
/// replica 0 has block 2 of 8.
constexpr static_vector<axis, int(axis_count)> scatter_order(axis_set cut) {
  static_vector<axis, int(axis_count)> out;
  for (axis const which : all_axes)
    if (cut.contains(which)) out.push_back(which);
  return out;
}

/// Returns the axes as text, for example "data x tensor".
[[gnu::cold]] constexpr std::string to_string(axis_set over) {
  std::string text;
  for (axis const which : all_axes)
    if (over.contains(which)) {
      if (!text.empty()) text += " x ";
      text += to_string(which);
    }
  return text;
}

}  // namespace plait::ext
