// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>

#include "plait/formula/degrees.hpp"
#include "plait/formula/graph.hpp"
#include "plait/layer/form.hpp"
#include "plait/placement/placement.hpp"

/// The forms of a formula, which are the ways in which tensor-parallel ranks can divide its work.
/// In each form the ranks cut one variable (a set of dimensions that are cut together, see
/// formula/graph.hpp), wherever the variable occurs in the forward and in the gradients. Each kind
/// of node has one rule, from which the placement of its result follows.
///
/// Example: y = matmul(silu(matmul(x, up)), down). Ranks cut the columns of `up`. The first product
/// then has blocks of columns, and so has silu of it. The rows of `down` are the same variable, so
/// each rank calculates a summand of y, which is partial. In the gradients dx is partial, too, so x
/// is replicate. These are the column-parallel and row-parallel products of Megatron-LM.
namespace plait::formula {

/// The reason why ranks cannot cut a variable.
enum class refusal : int {
  none,
  needs_whole,        ///< an operation needs the whole variable on each rank
  twice,              ///< a value has the variable in two dimensions
  of_summands,        ///< a function that is not linear would read a summand
  cut_times_summand,  ///< an operation would read a block and a summand
  of_function,        ///< a function would read a summand that is not its last operand
  in_pieces,         ///< the columns of a rank would not be contiguous, and an operation takes only
                     ///< contiguous columns
  unlike_gradients,  ///< one contribution to a gradient is complete and another is a summand
  sum_for_parameter,  ///< the ranks would have to add up a value that the gradient of a parameter
                      ///< reads
  many_sums,          ///< the form would need more all-reduces than a form may list
  cuts_loss           ///< each rank would have a block or a summand of a term of the loss
};

/// The placements of all values if ranks cut one variable, found by one visit of all nodes in
/// order. A value that has the variable is a block. A value that is summed over the variable is a
/// summand (partial). A node that cannot take a summand refuses the cut, unless the ranks can
/// complete the sum before it within the layer.
template <class Graph>
class cut_values {
 public:
  /// In place of the number of a variable: the form in which each rank does all work.
  static constexpr int nothing = -1;
  /// In place of the number of a variable: the form whose inputs are partial.
  static constexpr int summands = -2;

  constexpr cut_values(Graph const& graph, int variable)
      : g(graph), variable_(variable), degrees_{graph, is_partial_} {}

  /// Returns true if ranks can cut the variable. Otherwise sets `why` and `where`.
  constexpr bool run() {
    if (variable_ >= 0 && g.is_whole[variable_]) return refuse(refusal::needs_whole, -1);
    if (try_all()) return true;
    refusal const because = why;
    int const at_node = where;
    while (variable_ >= 0 && g.loss_term < 0 && complete_summands())
      if (try_all()) return can_list_moves();
    return refuse(because, at_node);
  }

  /// Returns the dimension along which a value is cut: 0 for the rows, 1 for the first factor of
  /// the columns and so on, -1 for none, -2 for several.
  [[nodiscard]] constexpr int cut_dimension(int value) const {
    node const& n = g.at[value];
    int out = is_cut(n.rows) ? 0 : -1;
    for (int f = 0; f < n.factor_count; ++f)
      if (is_cut(n.factors[f])) out = out == -1 ? f + 1 : -2;
    return out;
  }
  [[nodiscard]] constexpr bool is_cut(int value) const { return cut_dimension(value) >= 0; }
  /// Returns the largest number of equal blocks into which the variable can be cut; the number of
  /// ranks must divide it. It is the greatest common divisor of all lengths that are cut, where a
  /// length that consists of pieces counts as the length of one piece. If rows of activations are
  /// cut, it is 0.
  [[nodiscard]] constexpr int units() const {
    int out = 0;
    for (int v = 0; v < g.variables; ++v)
      if (variable_ >= 0 && g.root(v) == variable_)
        out = std::gcd(out, g.extents[v] / g.pieces_of(v));
    return out;
  }
  [[nodiscard]] constexpr bool is_partial(int value) const { return is_partial_[value]; }

  /// Returns the placement of a value of the forward, or of a node of the gradients.
  [[nodiscard]] constexpr placement placement_of(int value) const {
    if (int const cut = cut_dimension(value); cut >= 0) {
      node const& n = g.at[value];
      int parts = g.pieces_of(cut == 0 ? n.rows.variable : n.factors[cut - 1].variable);
      for (int f = 0; f + 1 < cut; ++f) parts *= n.factors[f].extent;
      return {ext::placement_kind::shard, cut == 0 ? 0 : 1, parts};
    }
    if (is_partial_[value]) return partial;
    return is_replicate_[value] ? replicate : invariant;
  }
  [[nodiscard]] constexpr placement placement_of_parameter(int parameter) const {
    int const value = g.parameters[parameter];
    if (is_cut(value) || is_partial_[value]) return placement_of(value);
    for (int i = g.forward_size; i < g.size; ++i)
      if (g.at[i].parameter == parameter && is_partial_[i]) return replicate;
    return is_replicate_[value] ? replicate : invariant;
  }

  /// Returns true if an all_reduce within the layer completes a value as soon as the ranks have
  /// calculated their summands.
  [[nodiscard]] constexpr bool is_completed(int value) const { return is_completed_[value]; }

  refusal why = refusal::none;
  int where = -1;  ///< the node that makes the cut impossible

 private:
  [[nodiscard]] constexpr bool is_cut(dimension const& of) const {
    return of.variable >= 0 && variable_ >= 0 && g.root(of.variable) == variable_;
  }
  constexpr bool refuse(refusal because, int at_node) {
    why = because, where = at_node;
    return false;
  }
  constexpr bool try_all() {
    degrees_.once = 0;
    for (;;) {
      unsigned const before = degrees_.once;
      why = refusal::none;
      for (int i = 0; i < g.size; ++i) is_partial_[i] = is_completed_[i] = is_replicate_[i] = false;
      bool const is_sound = visit_all();
      if (degrees_.once != before) continue;
      if (!is_sound) return false;
      break;
    }
    if (g.loss_term >= 0 && (is_cut(g.loss_term) || is_partial_[g.loss_term]))
      return refuse(refusal::cuts_loss, g.loss_term);
    for (int i = 0; i < g.size; ++i) find_mode(i);
    return has_whole_duals() && has_like_gradients();
  }
  /// Finds the summands that node `where` cannot read, and marks them as "completed": the ranks
  /// all-reduce them before the node runs. A summand can be completed if it has one number for each
  /// row or head, or if it is a row that is added to a complete row, as at the end of a residual
  /// block. Returns true if at least one summand has been marked.
  constexpr bool complete_summands() {
    if (why != refusal::of_summands && why != refusal::cut_times_summand) return false;
    node const& n = g.at[g.at[where].kind == node_kind::result ? g.at[where].operands[0] : where];
    bool const is_sum = n.kind == node_kind::add || (n.kind == node_kind::map && adds_up(where));
    bool found = complete(where, false);
    for (int k = 0; k < n.count; ++k)
      if (n.operands[k] >= 0 && complete(n.operands[k], is_sum)) found = true;
    return found;
  }
  constexpr bool complete(int value, bool is_row) {
    node const& n = g.at[value];
    if (!is_partial_[value] || completes_[value] || !(is_row || n.last().is_single())) return false;
    bool const is_call = n.kind == node_kind::call || (n.kind == node_kind::result &&
                                                       g.at[n.operands[0]].kind == node_kind::call);
    if (n.kind == node_kind::reduce || n.kind == node_kind::add || n.kind == node_kind::product ||
        is_call)
      return completes_[value] = true;
    bool found = false;  // true if a summand that the function reads has been marked
    for (int k = 0; k < n.count; ++k)
      if (n.operands[k] >= 0) found = complete(n.operands[k], is_row) || found;
    return found;
  }
  /// Returns true if a map adds up its operands, each multiplied by numbers or by a row of
  /// parameters.
  [[nodiscard]] constexpr bool adds_up(int map) const {
    auto const functions = g.functions_of(map);
    for (int i = 0; i < functions.count; ++i) {
      node const& n = g.at[functions.at[i]];
      auto const is_factor = [&](int x) {
        return g.is_shapeless(x) || g.at[x].kind == node_kind::parameter;
      };
      bool const is_scaled =
          n.is == algebra::product && (is_factor(n.own[0]) || is_factor(n.own[1]));
      if (!is_scaled && n.is != algebra::sum && n.is != algebra::difference &&
          n.is != algebra::negation)
        return false;
    }
    return true;
  }
  /// Returns true if a form can list the all-reduces of all completed sums. Their number is
  /// limited, and the gradient of a parameter must not read such a sum in the backward, because
  /// only backward_input may communicate.
  constexpr bool can_list_moves() {
    bool is_for_parameter[Graph::capacity]{};
    int moves = 0;
    for (int i = g.size - 1; i >= 0; --i) {
      moves += is_completed_[i] ? 1 : 0;
      if (i < g.forward_size) continue;
      if (g.at[i].parameter >= 0) is_for_parameter[i] = true;
      if (!is_for_parameter[i]) continue;
      if (is_completed_[i]) return refuse(refusal::sum_for_parameter, i);
      for (int k = 0; k < g.at[i].count; ++k)
        if (g.at[i].operands[k] >= 0) is_for_parameter[g.at[i].operands[k]] = true;
    }
    return moves <= ext::form_info::most_inner || refuse(refusal::many_sums, -1);
  }
  constexpr bool visit_all() {
    for (int i = 0; i < g.size; ++i)
      if (!g.at[i].is_inlined && g.at[i].kind != node_kind::none && !visit(i)) return false;
    return true;
  }
  constexpr bool visit(int i) {
    node const& n = g.at[i];
    if (cut_dimension(i) == -2) return refuse(refusal::twice, i);
    switch (n.kind) {
      case node_kind::parameter: is_partial_[i] = (degrees_.once >> n.number & 1) != 0; return true;
      case node_kind::input: is_partial_[i] = variable_ == summands && !n.is_data; return true;
      case node_kind::number:
      case node_kind::index_function:
      case node_kind::draw:
      case node_kind::output_gradient:
      case node_kind::seed: return true;
      case node_kind::result: return visit_operation(i, g.at[n.operands[0]]);
      default: return visit_operation(i, n);
    }
  }
  /// Finds out if node i is a summand, and returns false if it cannot be calculated from its
  /// operands. `of`: the node that lists the operands of node i.
  constexpr bool visit_operation(int i, node const& of) {
    bool const takes_bias = of.kind == node_kind::product || of.is_convolution;
    bool const has_bias = takes_bias && of.count == 3;
    int const count = has_bias ? 2 : of.count;
    int cuts = 0, sums = 0;
    for (int k = 0; k < count; ++k) {
      if (of.operands[k] < 0) continue;  // a piece that no node reads, so it has no gradient
      cuts += is_cut(of.operands[k]) ? 1 : 0;
      sums += is_partial_[of.operands[k]] ? 1 : 0;
    }
    bool const here = is_cut(i);
    if (sums > 0 && (cuts > 0 || here)) return refuse(refusal::cut_times_summand, i);
    if (cuts > 0 && !takes_columns(i, of)) return refuse(refusal::in_pieces, i);
    if (cuts > 0) is_partial_[i] = !here;  // the operation sums over the variable that is cut
    else if (sums > 0 && !visit_summands(i, of, sums)) return false;
    if (has_bias && is_partial_[i] && !degrees_.enters_once(of.operands[2]))
      return refuse(refusal::of_summands, i);
    if (is_partial_[i] && completes_[i]) is_partial_[i] = false, is_completed_[i] = true;
    return true;
  }
  constexpr bool visit_summands(int i, node const& of, int sums) {
    if (has_operands(*of.row)) {
      is_partial_[i] = is_linear(i, of, sums);
    } else {
      bool const is_map = of.kind == node_kind::map;
      is_partial_[i] = (is_map ? degrees_.of_map(i) : degrees_.of_slope(of)) == degree::linear;
      if (is_partial_[i] && !takes_summands(of, sums, !is_map || g.is_linear_in(i, of.count - 1)))
        return refuse(refusal::of_function, i);
    }
    return is_partial_[i] || refuse(refusal::of_summands, i);
  }
  /// Returns true unless a rank has several pieces of a value's columns and the kernel of the node
  /// takes only contiguous columns.
  [[nodiscard]] constexpr bool takes_columns(int i, node const& of) const {
    int pieces = parts_of(i);
    for (int k = 0; k < of.count; ++k)
      if (int const x = of.operands[k]; x >= 0 && parts_of(x) > pieces) pieces = parts_of(x);
    if (pieces <= 1) return true;
    switch (of.kind) {
      case node_kind::map:
      case node_kind::slope: return is_plain(i, of);
      case node_kind::broadcast:
      case node_kind::sum_of_factors: return false;
      case node_kind::column_sum: return g.at[i].width() == g.at[of.operands[0]].width();
      case node_kind::reduce: return g.at[of.operands[0]].factor_count <= 1;
      default: return true;
    }
  }
  [[nodiscard]] constexpr int parts_of(int value) const {
    return cut_dimension(value) > 0 ? placement_of(value).parts : 1;
  }
  /// Returns true if an elementwise function broadcasts no operand and does not depend on the
  /// places of elements.
  [[nodiscard]] constexpr bool is_plain(int i, node const& of) const {
    bool out = of.count <= 3 && !g.is_placed(of.kind == node_kind::slope ? of.of : i);
    for (int k = 0; k < of.count; ++k) {
      node const& x = g.at[of.operands[k]];
      bool const is_sum = x.kind == node_kind::reduce || x.kind == node_kind::result;
      out = out && x.is_per_row() && x.width() == of.width() && !is_sum;
    }
    return out;
  }
  /// Returns true if the `ops` function that runs elementwise functions accepts the summands among
  /// the operands of `of`. It does so if all operands are summands, or if only the last operand is
  /// a summand and the function is linear in this operand.
  [[nodiscard]] constexpr bool takes_summands(node const& of, int sums,
                                              bool is_linear_in_last) const {
    return sums == of.count ||
           (sums == 1 && is_linear_in_last && is_partial_[of.operands[of.count - 1]]);
  }
  /// Returns true if node i, a result of the operation `of`, is linear in those operands that are
  /// summands. Node i is then a summand, too.
  [[nodiscard]] constexpr bool is_linear(int i, node const& of, int sums) const {
    auto const by = operation::signature::of(of.row->text);
    int written = 0, reads = 0, first = -1, last = -1;
    while (!by.operands[written].is_written) ++written;
    for (int k = 0; k < of.count; ++k) {
      if (of.operands[k] < 0) continue;  // a piece that no node reads, so it has no gradient
      if (k < written && by.operands[k].is_constant) {
        if (is_partial_[of.operands[k]]) return false;
        continue;
      }
      ++reads, last = of.operands[k];
      if (first < 0) first = last;
    }
    if (auto const result = i - int(&of - g.at); by.operands[written + result].is_constant)
      return false;
    switch (by.linear) {
      case operation::linearity::in_all: return sums == reads;
      case operation::linearity::in_each: return sums == 1;
      case operation::linearity::in_first: return sums == 1 && is_partial_[first];
      case operation::linearity::in_last: return sums == 1 && is_partial_[last];
      default: return false;
    }
  }
  /// Decides if a value that is not cut is `replicate` or `invariant`. A value of the forward is
  /// replicate if its gradient is a summand; further results of a call have the mode of the first
  /// result. A gradient is replicate if one of its operands is.
  constexpr void find_mode(int i) {
    node const& n = g.at[i];
    if (i < g.forward_size) {
      int const dy = g.gradient[i];
      is_replicate_[i] = dy >= 0 && is_partial_[dy];
      if (n.kind == node_kind::result) is_replicate_[i] = is_replicate_[n.operands[0]];
      return;
    }
    if (is_completed_[i]) return;
    if (n.kind == node_kind::output_gradient) is_replicate_[i] = is_partial_[g.output];
    for (int k = 0; k < n.count; ++k) {
      int const x = n.operands[k];
      if (x < 0) continue;
      bool const is_whole = !is_cut(x) && !is_partial_[x];
      if (is_whole && is_replicate_[x]) is_replicate_[i] = true;
    }
  }
  /// Returns true if each summand of the forward has a gradient that is whole on each rank.
  constexpr bool has_whole_duals() {
    for (int i = 0; i < g.forward_size; ++i) {
      bool const is_summand = is_partial_[i] || is_completed_[i];
      if (g.at[i].is_inlined || !is_summand || g.gradient[i] < 0) continue;
      if (is_partial_[g.gradient[i]])
        return refuse(refusal::of_summands, is_completed_[i] ? g.gradient[i] : i);
    }
    return true;
  }
  constexpr bool has_like_gradients() {
    for (int parameter = 0; parameter < g.parameter_count; ++parameter) {
      int sums = 0, others = 0;
      if (is_cut(g.parameters[parameter])) continue;
      for (int i = g.forward_size; i < g.size; ++i)
        if (g.at[i].parameter == parameter) ++(is_partial_[i] ? sums : others);
      if (sums > 0 && others > 0) return refuse(refusal::unlike_gradients, g.parameters[parameter]);
    }
    return true;
  }

  Graph const& g;
  int variable_;
  bool completes_[Graph::capacity]{};  ///< values whose summands the ranks add up
  bool is_completed_[Graph::capacity]{};
  bool is_partial_[Graph::capacity]{};
  bool is_replicate_[Graph::capacity]{};
  summand_degrees<Graph> degrees_;
};

/// One form of a formula: the placement of every value if ranks cut one variable.
template <class Graph>
struct formula_form {
  ext::name label{};
  int variable = cut_values<Graph>::nothing;
  placement at[Graph::capacity]{};
  bool is_shared[Graph::capacity]{};  ///< true for a node whose work the ranks divide among
                                      ///< themselves
  /// The values whose summands the ranks add up (all-reduce) as soon as they have calculated them,
  /// in the order of the nodes.
  int completed[ext::form_info::most_inner]{}, completed_count = 0;
  placement parameters[Graph::most_parameters]{};
  /// The greatest common divisor of all lengths that are cut; the number of ranks must divide it.
  int units = 0;
};

/// All forms of a formula. The first form cuts nothing, and each other form cuts one variable. The
/// form that cuts rows is the last.
template <class Graph>
struct formula_forms {
  static constexpr int most = 16;

  formula_form<Graph> at[most]{};
  int count = 0;
  bool has_more = false;  ///< true if the formula has more forms than `most`

  /// `labels`: the names of the parameters.
  constexpr formula_forms(Graph const& g, ext::name const* labels) {
    using values = cut_values<Graph>;
    add(g, values::nothing, labels);
    bool is_seen[Graph::capacity]{};
    auto const visit = [&](dimension const& of) {
      if (of.variable < 0) return;
      int const root = g.root(of.variable);
      if (is_seen[root] || root == row_variable) return;
      is_seen[root] = true;
      add(g, root, labels);
    };
    for (int i = 0; i < g.forward_size; ++i) {
      visit(g.at[i].rows);
      for (int f = 0; f < g.at[i].factor_count; ++f) visit(g.at[i].factors[f]);
    }
    add(g, row_variable, labels);
    if (g.parameter_count == 0) add(g, values::summands, labels);
  }

  /// Returns true if two values have the same placement in every form.
  [[nodiscard]] constexpr bool has_like_placements(int a, int b) const {
    for (int i = 0; i < count; ++i)
      if (at[i].at[a] != at[i].at[b]) return false;
    return true;
  }

 private:
  constexpr void add(Graph const& g, int variable, ext::name const* labels) {
    cut_values<Graph> values(g, variable);
    if (!values.run()) return;
    if (count == most) {
      has_more = true;
      return;
    }
    formula_form<Graph>& out = at[count];
    out.variable = variable;
    out.units = values.units();
    for (int i = 0; i < g.size; ++i) {
      out.at[i] = values.placement_of(i);
      if (values.is_completed(i)) out.completed[out.completed_count++] = i;
      out.is_shared[i] = values.is_cut(i);
      node const& n = g.at[i];
      for (int k = 0; k < n.count; ++k)
        out.is_shared[i] = out.is_shared[i] || (n.operands[k] >= 0 && values.is_cut(n.operands[k]));
      // If the rows of the table are cut, each rank still looks up all tokens, so the work is not
      // divided.
      if (n.is_lookup) out.is_shared[i] = values.is_cut(i);
    }
    for (int k = 0; k < g.parameter_count; ++k)
      out.parameters[k] = values.placement_of_parameter(k);
    out.label = label_of(g, out);
    for (int k = 0; k < g.parameter_count && is_taken(out.label); ++k)
      if (ext::is_shard(out.parameters[k])) out.label = labels[k];
    for (int number = 2; is_taken(out.label); ++number) out.label = numbered(number);
    ++count;
  }
  /// Returns a label such as "form_2", for forms that would otherwise have equal labels.
  static constexpr ext::name numbered(int number) {
    ext::name out("form_");
    if (number >= 10) out.word0 |= std::uint64_t('0' + number / 10) << 40;
    out.word0 |= std::uint64_t('0' + number % 10) << (number >= 10 ? 48 : 40);
    return out;
  }
  [[nodiscard]] constexpr bool is_taken(ext::name const& label) const {
    for (int i = 0; i < count; ++i)
      if (at[i].label == label) return true;
    return false;
  }
  static constexpr ext::name label_of(Graph const& g, formula_form<Graph> const& form) {
    if (form.variable == cut_values<Graph>::nothing) return "whole";
    if (form.variable == cut_values<Graph>::summands) return "summands";
    if (form.variable == row_variable) return "sequence";
    bool takes_blocks = false;
    for (int i = 0; i < g.input_count; ++i)
      takes_blocks = takes_blocks || ext::is_shard(form.at[g.inputs[i]]);
    bool const makes_blocks = ext::is_shard(form.at[g.output]);
    if (takes_blocks && makes_blocks) return "features";
    if (makes_blocks) return "column";
    if (takes_blocks) return "row";
    return "hidden";
  }
};

}  // namespace plait::formula
