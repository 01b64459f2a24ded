// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>

#include "plait/formula/graph.hpp"

/// Automatic differentiation of a formula. The gradients are nodes of the same kinds as the
/// forward; in the graph they follow the nodes of the forward.
///
/// adjoint_writer visits the nodes of the forward from the output to the inputs. Each node adds to
/// the gradients of its operands: a product adds dy transposed(w) and transposed(x) dy, a map adds
/// its slopes times dy, and an operation of operation/rows.hpp adds the results of its adjoint
/// operations. If several nodes read a value, its gradient is the sum of their contributions.
/// Contributions to the gradient of a parameter are added to its accumulator directly, so the graph
/// has no node that sums them.
///
/// Example: for y = matmul(silu(a), w) the nodes dy, dy transposed(w), transposed(silu(a)) dy, and
/// the slope of silu at a times dy transposed(w) are added.
namespace plait::formula {

/// Returns the operands that the derivative of a map with respect to operand `by` reads, as a bit
/// mask. The derivative of x y with respect to x reads y; the derivative of x + y reads no operand.
template <class Graph>
constexpr unsigned slope_reads(Graph const& g, int map, int by) {
  auto const functions = g.functions_of(map);
  unsigned value[Graph::function_list::most]{}, slope[Graph::function_list::most]{};
  bool moves[Graph::function_list::most]{};
  for (int i = 0; i < functions.count; ++i) {
    node const& n = g.at[functions.at[i]];
    unsigned values[4]{}, slopes = 0, all = 0;
    bool moved[4]{};
    for (int k = 0; k < n.own_count; ++k) {
      int const x = n.own[k];
      if (g.at[x].is_inlined) {
        int const place = functions.place_of(x);
        values[k] = value[place], slopes |= slope[place], moved[k] = moves[place];
      } else if (int const operand = g.operand_of(map, x); operand >= 0) {
        values[k] = 1u << operand, moved[k] = operand == by;
      }
      all |= values[k];
      moves[i] = moves[i] || moved[k];
    }
    value[i] = all;
    if (n.is == algebra::product)
      slopes |= (moved[0] ? values[1] : 0u) | (moved[1] ? values[0] : 0u);
    else if (n.is == algebra::quotient)
      slopes |= (moved[0] ? values[1] : 0u) | (moved[1] ? all : 0u);
    else if (n.is == algebra::other && moves[i]) slopes |= all;
    slope[i] = slopes;
  }
  return slope[functions.count - 1];
}

/// Appends the nodes of the gradients to the graph, after the nodes of the forward.
template <class Graph>
struct adjoint_writer {
  Graph& g;

  constexpr explicit adjoint_writer(Graph& of) : g(of) {
    for (int& each : shared_) each = -1;
  }

  constexpr void write() {
    if (!g.is_loss) add_to(g.output, g.put(g.like(g.output, node_kind::output_gradient)));
    if (g.loss_term >= 0) add_to(g.loss_term, g.put(g.like(g.loss_term, node_kind::seed)));
    for (int i = g.forward_size - 1; i >= 0; --i) {
      node const n = g.at[i];
      if (n.is_inlined || g.gradient[i] < 0) continue;
      finish(i);
      int const dy = g.gradient[i];
      switch (n.kind) {
        case node_kind::product: product(n, dy); break;
        case node_kind::map: map(i, n, dy); break;
        case node_kind::reduce: repeat(n, dy); break;
        case node_kind::broadcast: add_to(n.operands[0], g.put(g.reduced(dy, 1))); break;
        case node_kind::reshape: reshape(n, dy); break;
        case node_kind::part: part(n, dy); break;
        case node_kind::concat: concat(n, dy); break;
        case node_kind::contract: contract(n, dy); break;
        case node_kind::attention: attention(i, n, dy); break;
        case node_kind::softmax: softmax(i, n, dy); break;
        case node_kind::shift: add_to(n.operands[0], g.put(g.shifted(dy, -n.steps))); break;
        case node_kind::scan: scan(i, n, dy); break;
        case node_kind::across: of_row(n, node_kind::across_gradient, {dy}); break;
        case node_kind::log_sum_exp:
          of_row(n, node_kind::log_sum_exp_gradient, {n.operands[0], i, dy});
          break;
        case node_kind::maximum: of_row(n, node_kind::maximum_gradient, {n.operands[0], dy}); break;
        case node_kind::pick: of_row(n, node_kind::pick_gradient, {n.operands[1], dy}); break;
        case node_kind::call:
          if (n.is_convolution) convolve(i, n, dy);
          else call(i, n);
          break;
        case node_kind::result: g.fail(mistake::kind::no_adjoint); break;
        default: break;
      }
      g.blame(n.term);
      if (g.has_failed()) return;
    }
    for (int i = 0; i < g.input_count; ++i)
      if (g.inputs[i] < 0 || (g.gradient[g.inputs[i]] < 0 && !g.at[g.inputs[i]].is_data))
        g.fail(mistake::kind::unused_input, i);
  }

 private:
  /// For each value, the node that is a summand of the value's gradient and also of another value's
  /// gradient; -1 if there is no such node.
  int shared_[Graph::capacity]{};

  /// Adds `made`, which is also the gradient of another value, to the gradient of `value`. finish()
  /// does the addition, after all contributions that belong to `value` alone have been added up. If
  /// these contributions are partial sums of the ranks, the ranks therefore need only one
  /// all-reduce.
  constexpr void add_shared(int value, int made) {
    if (!g.has_gradient(value)) return;
    if (g.at[value].kind == node_kind::parameter || shared_[value] >= 0) return add_to(value, made);
    shared_[value] = made;
    if (g.gradient[value] < 0) g.gradient[value] = made;
  }
  /// Completes the gradient of a value after all nodes that read the value have been visited: adds
  /// the contribution of add_shared().
  constexpr void finish(int value) {
    if (shared_[value] < 0 || g.gradient[value] == shared_[value]) return;
    node sum = g.like(value, node_kind::add);
    sum.read(g.gradient[value]), sum.read(shared_[value]);
    g.gradient[value] = g.put(sum);
  }
  /// Adds node `made` to the gradient of a value.
  constexpr void add_to(int value, int made) {
    if (!g.has_gradient(value)) return;
    if (g.at[value].kind == node_kind::parameter) {
      g.at[made].parameter = g.at[value].number;
    } else if (g.gradient[value] < 0 || g.gradient[value] == shared_[value]) {
      g.gradient[value] = made;
    } else {
      node sum = g.like(value, node_kind::add);
      sum.read(g.gradient[value]), sum.read(made);
      g.gradient[value] = g.put(sum);
    }
  }
  /// Adds `made`, which has the shape of a map's result, to the gradient of an operand that the map
  /// broadcasts. It sums `made` over the dimensions along which the operand is repeated.
  constexpr void add_reduced(int value, int made) {
    node const& x = g.at[value];
    if (int const row = g.row_of(value); row >= 0) {
      node sum = g.like(row, node_kind::column_sum);
      sum.read(made);
      // The operand has one number for each head, so the columns of each head are summed.
      int const repeated = x.factor_count > 1 ? g.at[made].last().extent : 1;
      if (x.last().is_single() && repeated > 1) sum.pieces = repeated;
      if (x.factor_count > 1 && g.at[made].factor_count != 2)
        return g.fail(mistake::kind::no_adjoint);
      value = row;
      made = g.put(sum);
    } else {
      // The map repeats a single number of a row or of a head along the last factor, and it repeats
      // a row for each head. The gradient is summed over the dimensions along which the operand is
      // repeated.
      if (x.last().is_single() && !g.at[made].last().is_single()) made = g.put(g.reduced(made, 1));
      if (x.width() != g.at[made].width()) {
        node sum = g.like(value, node_kind::sum_of_factors);
        sum.read(made);
        made = g.put(sum);
      }
    }
    add_to(value, made);
  }
  constexpr void product(node const& n, int dy) {
    int const x = n.operands[0], w = n.operands[1];
    node dx = g.like(x, node_kind::product);
    dx.read(dy), dx.read(w);
    dx.is_transposed = !n.is_transposed;
    node dw = g.like(w, node_kind::weight_gradient);
    dw.read(x), dw.read(dy);
    dw.is_transposed = n.is_transposed;
    if (n.count == 3) {
      node bias = g.like(n.operands[2], node_kind::column_sum);
      bias.read(dy);
      dw.of = g.put(bias);
      add_to(n.operands[2], dw.of);
    }
    add_to(w, g.put(dw));
    if (g.has_gradient(x)) add_to(x, g.put(dx));
  }
  constexpr void convolve(int i, node const& n, int dy) {
    int const x = n.operands[0], w = n.operands[1];
    auto const gradient = [&](int by, operation::row const& row, int read) {
      node out = g.like(by, node_kind::call);
      out.row = &row, out.windows = n.windows;
      out.of = i, out.term = n.term;
      out.read(dy), out.read(read);
      add_to(by, g.put(out));
    };
    if (n.count == 3) {
      node bias = g.like(n.operands[2], node_kind::column_sum);
      bias.pieces = n.image.map();
      bias.read(dy);
      add_to(n.operands[2], g.put(bias));
    }
    gradient(w, operation::convolve_backward_weight::is, x);
    gradient(x, operation::convolve_backward_input::is, w);
  }
  constexpr void map(int i, node const& n, int dy) {
    bool const from_output = n.from_output && g.functions_of(i).count == 1 && n.count == 1;
    for (int by = 0; by < n.count; ++by) {
      int const x = n.operands[by];
      if (!g.has_gradient(x)) continue;
      if (g.adds_operand(i, by)) {
        bool const is_repeated = g.row_of(x) >= 0 || g.at[x].width() != n.width() ||
                                 (g.at[x].last().is_single() && !n.last().is_single());
        if (is_repeated) add_reduced(x, dy);
        else add_shared(x, dy);
        continue;
      }
      node out = g.like(i, node_kind::slope);
      out.of = i, out.number = by, out.from_output = from_output, out.term = n.term;
      unsigned const reads = from_output ? 0u : slope_reads(g, i, by);
      if (from_output) out.read(i);
      for (int k = 0; k < n.count; ++k)
        if ((reads >> k & 1) != 0) out.read(n.operands[k]);
      out.read(dy);
      add_reduced(x, g.put(out));
    }
  }
  constexpr void repeat(node const& n, int dy) {
    node out = g.like(n.operands[0], node_kind::broadcast);
    out.factor = n.factor;
    out.read(dy);
    add_to(n.operands[0], g.put(out));
  }

  constexpr void reshape(node const& n, int dy) {
    node out = g.like(n.operands[0], node_kind::reshape);
    out.read(dy);
    add_to(n.operands[0], g.put(out));
  }
  /// Writes one concat node that puts the gradients of all parts of a value side by side.
  constexpr void part(node const& n, int dy) {
    int const x = n.operands[0];
    if (int const made = g.gradient[x];
        made >= 0 && made != shared_[x] && g.at[made].kind == node_kind::concat &&
        g.at[made].pieces == n.pieces && g.at[made].operands[n.number] < 0) {
      node moved = g.at[made];  // moved to the end, because operands have lower numbers
      g.at[made] = node{};
      moved.operands[n.number] = dy;
      g.gradient[x] = g.put(moved);
      return;
    }
    node out = g.like(x, node_kind::concat);
    out.pieces = out.count = n.pieces;
    out.operands[n.number] = dy;
    add_to(x, g.put(out));
  }
  constexpr void concat(node const& n, int dy) {
    for (int k = 0; k < n.count; ++k) {
      node out = g.like(n.operands[k], node_kind::part);
      out.number = k, out.pieces = n.count;
      out.read(dy);
      add_to(n.operands[k], g.put(out));
    }
  }
  constexpr void contract(node const& n, int dy) {
    for (int side = 0; side < 2; ++side) {
      int const value = n.operands[side];
      if (!g.has_gradient(value)) continue;
      node out = g.like(value, node_kind::contract);
      out.read(side == 0 ? dy : n.operands[0]);
      out.read(side == 0 ? n.operands[1] : dy);
      for (int i = 0; i < node::most_dimensions; ++i) {
        out.letters[0][i] = n.letters[side == 0 ? 2 : 0][i];
        out.letters[1][i] = n.letters[side == 0 ? 1 : 2][i];
        out.letters[2][i] = n.letters[side][i];
      }
      add_to(value, g.put(out));
    }
  }
  /// Adds one node that calculates the gradients of query, key and value.
  constexpr void attention(int i, node const& n, int dy) {
    int first = -1;
    for (int k = 0; k < 3; ++k) {
      node out = g.like(n.operands[k], k == 0 ? node_kind::attention_gradient : node_kind::result);
      out.number = k;
      if (k == 0) {
        for (int j = 0; j < 3; ++j) out.read(n.operands[j]);
        out.read(i), out.read(i + 1), out.read(dy);
        out.of = i, out.term = n.term;
      } else {
        out.read(first);
      }
      int const made = g.put(out);
      if (k == 0) first = made;
    }
    // The results of the node have consecutive numbers, so nodes that sum gradients are added after
    // the last result.
    for (int k = 0; k < 3; ++k) add_to(n.operands[k], first + k);
  }
  /// Adds the gradient of an operation that reduces each row to one number, or the gradient of
  /// `across`.
  constexpr void of_row(node const& n, node_kind kind, std::initializer_list<int> reads) {
    node out = g.like(n.operands[0], kind);
    for (int const value : reads) out.read(value);
    add_to(n.operands[0], g.put(out));
  }
  constexpr void softmax(int i, node const& n, int dy) {
    node out = g.like(i, node_kind::softmax_gradient);
    out.read(i), out.read(dy);
    add_to(n.operands[0], g.put(out));
  }
  /// Adds the gradients of a scan. The gradient with respect to x is a scan from the last position
  /// to the first. The gradient with respect to a[t] is h[t - 1] times the gradient with respect to
  /// x[t].
  constexpr void scan(int i, node const& n, int dy) {
    int const x = n.operands[n.count - 1];
    node back = g.like(x, node_kind::scan_gradient);
    back.factor = n.factor;
    if (n.count == 2) back.read(n.operands[0]);
    back.read(dy);
    int const dx = g.put(back);
    if (n.count == 1) return add_to(x, dx);
    int const before = g.put(g.shifted(i, 1));
    node product = g.like(n.operands[0], node_kind::multiply);
    product.read(before), product.read(dx);
    add_to(n.operands[0], g.put(product));
    add_to(x, dx);
  }

  // ---- Rows of operation/rows.hpp, whose adjoints name their operands ---------------------------

  constexpr int value_at(int i, node const& n, int operand) const {
    return operand < n.count ? n.operands[operand] : i + (operand - n.count);
  }
  constexpr void call(int i, node const& n) {
    for (int a = 0; a < n.adjoint_count; ++a) {
      operation::row const& row = *n.adjoints[a];
      auto const by = operation::signature::of(row.text);
      node out;
      out.kind = node_kind::call;
      out.row = &row, out.windows = n.windows;
      out.of = i, out.term = n.term;
      int first = -1;
      int operands[operation::signature::most_operands]{}, results = 0;
      for (int k = 0; k < by.count; ++k) {
        auto const name = row.name_of(k);
        int const operand = find_operand(*n.row, name, by.operands[k].is_written ? 1 : 0);
        if (!by.operands[k].is_written) {
          int const result = operand < 0 ? find_operand(*n.row, name, 1) : -1;
          int const value = operand >= 0  ? value_at(i, n, operand)
                            : result >= 0 ? g.gradient[value_at(i, n, result)]
                                          : -1;
          if (value < 0) return g.fail(mistake::kind::no_adjoint);
          out.read(value);
          continue;
        }
        if (operand < 0 || operand >= n.count) return g.fail(mistake::kind::no_adjoint);
        int const value = n.operands[operand];
        node written = first < 0 ? out : node{};
        if (first >= 0) written.kind = node_kind::result, written.read(first);
        written.number = first < 0 ? a : 0;
        written.copy_shape(g.at[value]);
        int const made = g.put(written);
        if (first < 0) first = made;
        if (by.operands[k].is_added_to && g.at[value].kind != node_kind::parameter)
          return g.fail(mistake::kind::no_adjoint);
        if (!by.operands[k].is_added_to && g.at[value].kind == node_kind::parameter)
          return g.fail(mistake::kind::no_adjoint);
        operands[results++] = value;
      }
      // The results of a call have consecutive numbers, so nodes that sum gradients are added after
      // the last result.
      for (int k = 0; k < results; ++k)
        if (g.has_gradient(operands[k])) add_to(operands[k], first + k);
    }
  }
};

}  // namespace plait::formula
