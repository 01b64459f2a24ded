// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/formula/graph.hpp"

/// The choice of the forward values that a formula keeps for its gradients.
namespace plait::formula {

/// Finds the cheapest set of values from which the backward can calculate all values that its
/// gradients read.
///
/// The backward recomputes elementwise functions and copies. It keeps all other values that it
/// reads: products, scans, attention and sums over columns. Sums over columns are kept because they
/// are small (one number for each row) and because ranks may have added them up. Among the sets
/// that suffice, the cheapest has the fewest columns. If two sets have as many columns, the set
/// that contains the input is preferred, because the plan may keep the input for another layer
/// anyway. After this, the set that leaves the least to recompute is preferred.
///
/// Example: in silu(a) b, with a = x gate and b = x up, the gradients read a, b and silu(a). The
/// set {a, b} suffices, as silu(a) can be recomputed from a. In exp(part<0, 2>(x)) y the gradients
/// read the result of exp. It is half as wide as x, so it is kept and x is not.
///
/// The values form a network. Each value is an edge whose capacity is its number of columns; it
/// leads from the values that it can be recomputed from to the values that can be recomputed from
/// it. A set that suffices is a cut of the network, and the cheapest cut is found by a maximum flow
/// (L. R. Ford and D. R. Fulkerson, Maximal flow through a network, 1956).
///
/// Cost: one breadth-first search of the network for each augmenting path of the flow.
template <class Graph>
class cheapest_kept {
 public:
  /// `is_read`: the values that gradients read; `output`: the node of the output, -1 for a loss.
  constexpr cheapest_kept(Graph const& graph, bool const* is_read, int output)
      : g(graph), is_read_(is_read), output_(output) {
    bool has_choice = false;
    for (int v = 0; v < g.forward_size; ++v) {
      is_end_[v] = reads(v);
      has_choice = has_choice || (reads(v) && is_made(v));
    }
    if (!has_choice) return;
    int of_inputs = 0;
    for (int v = 0; v < g.forward_size; ++v) {
      int const width = g.at[v].width();
      bool const is_given = v == output && reads(v);
      if (is_input(v)) of_inputs += width;
      capacity_[v] = is_input(v) ? unlimited : is_given ? 0 : 2 * width;
    }
    // The inputs are kept all together or not at all: one additional value represents them.
    capacity_[inputs()] = g.is_loss ? 0 : 2 * of_inputs - 1;
    while (push()) {
    }
    find_cut();
  }

  /// Returns true if a value is in the set. An output that gradients read is always in it.
  [[nodiscard]] constexpr bool is_cut(int value) const {
    return is_end_[value] && !is_begin_[value];
  }
  /// Returns true if a value of the forward is stored in a slot of the layer.
  [[nodiscard]] constexpr bool keeps(int value) const {
    return is_cut(value) && value != output_ && g.at[value].kind != node_kind::input;
  }
  /// Returns true if a value can be recomputed: an elementwise function, or a copy.
  [[nodiscard]] constexpr bool is_made(int value) const {
    node_kind const kind = g.at[value].kind;
    return value != output_ && (kind == node_kind::map || kind == node_kind::part ||
                                kind == node_kind::shift || kind == node_kind::across);
  }

 private:
  static constexpr int unlimited = 1 << 30;

  [[nodiscard]] constexpr int inputs() const { return g.forward_size; }
  [[nodiscard]] constexpr bool reads(int value) const {
    return value < g.forward_size && is_read_[value];
  }
  [[nodiscard]] constexpr bool is_input(int value) const {
    return value < g.forward_size && g.at[value].kind == node_kind::input;
  }
  /// Returns the value of operand `k`, with reshapes skipped; -1 for parameters and constants,
  /// which the backward can always read.
  [[nodiscard]] constexpr int operand(int value, int k) const {
    if (is_input(value)) return inputs();
    int x = g.at[value].operands[k];
    while (g.at[x].kind == node_kind::reshape) x = g.at[x].operands[0];
    return g.is_leaf(x) && !is_input(x) ? -1 : x;
  }
  /// Returns the number of values from which a value is recomputed; 0 if it cannot be recomputed.
  [[nodiscard]] constexpr int operands(int value) const {
    if (value == inputs()) return 0;
    return is_input(value) ? 1 : is_made(value) ? g.at[value].count : 0;
  }
  /// Returns true for values that cannot be recomputed from other values. The flow begins at them.
  [[nodiscard]] constexpr bool is_source(int value) const {
    if (value == inputs()) return true;
    node_kind const kind = g.at[value].kind;
    return kind != node_kind::none && kind != node_kind::reshape && !g.is_leaf(value) &&
           !is_made(value) && !g.at[value].is_inlined;
  }

  /// Increases the flow along one more path from the sources to a value that gradients read.
  /// Returns false if no such path exists. The two ends of the edge of value v are v and v +
  /// `half`.
  constexpr bool push() {
    constexpr int half = Graph::capacity + 1;
    int from[2 * half]{}, queue[2 * half]{}, first = 0, last = 0;
    for (int& each : from) each = -2;
    auto const visit = [&](int end, int came_from) {
      if (from[end] != -2) return;
      from[end] = came_from;
      queue[last++] = end;
    };
    for (int v = 0; v <= inputs(); ++v)
      if (is_source(v)) visit(v, -1);
    int found = -1;
    for (; first < last && found < 0; ++first) {
      int const at = queue[first], v = at % half;
      if (at < half) {
        if (flow_[v] < capacity_[v]) visit(v + half, at);
        for (int k = 0; k < operands(v); ++k)
          if (int const x = operand(v, k); x >= 0 && into_[v][k] > 0) visit(x + half, at);
        continue;
      }
      if (v != inputs() && reads(v)) found = at;
      if (flow_[v] > 0) visit(v, at);
      for (int u = 0; u < inputs(); ++u)
        for (int k = 0; k < operands(u); ++k)
          if (operand(u, k) == v) visit(u, at);
    }
    if (found < 0) return false;
    int most = unlimited;
    for (int end = found; from[end] >= 0; end = from[end])
      if (int const room = room_between(from[end], end); room < most) most = room;
    for (int end = found; from[end] >= 0; end = from[end]) add_between(from[end], end, most);
    return true;
  }
  [[nodiscard]] constexpr int room_between(int a, int b) const {
    constexpr int half = Graph::capacity + 1;
    int const x = a % half, y = b % half;
    if (x == y) return a < half ? capacity_[x] - flow_[x] : flow_[x];
    return a < half ? into_[x][place(x, y)] : unlimited;
  }
  constexpr void add_between(int a, int b, int amount) {
    constexpr int half = Graph::capacity + 1;
    int const x = a % half, y = b % half;
    if (x == y) flow_[x] += a < half ? amount : -amount;
    else if (a < half) into_[x][place(x, y)] -= amount;
    else into_[y][place(y, x)] += amount;
  }
  /// Returns the index of operand x among the operands of a value.
  [[nodiscard]] constexpr int place(int value, int x) const {
    int k = 0;
    while (operand(value, k) != x) ++k;
    return k;
  }
  /// Finds the minimum cut: marks the ends of edges from which additional flow could still reach a
  /// value that gradients read. The edges that lead into marked ends are the cut that leaves the
  /// least to recompute.
  constexpr void find_cut() {
    for (bool more = true; more;) {
      more = false;
      auto const set = [&](bool& is, bool now) { more = more || (now && !is), is = is || now; };
      for (int v = inputs(); v >= 0; --v) {
        set(is_end_[v], flow_[v] > 0 && is_begin_[v]);
        set(is_begin_[v], is_end_[v] && flow_[v] < capacity_[v]);
        for (int k = 0; k < operands(v); ++k) {
          int const x = operand(v, k);
          if (x < 0) continue;
          set(is_end_[x], is_begin_[v]);
          set(is_begin_[v], into_[v][k] > 0 && is_end_[x]);
        }
      }
    }
  }

  Graph const& g;
  bool const* is_read_;
  int output_;
  int capacity_[Graph::capacity + 1]{}, flow_[Graph::capacity + 1]{};
  /// The flow from each operand into a value.
  int into_[Graph::capacity + 1][node::most_operands]{};
  bool is_begin_[Graph::capacity + 1]{}, is_end_[Graph::capacity + 1]{};
};

}  // namespace plait::formula
