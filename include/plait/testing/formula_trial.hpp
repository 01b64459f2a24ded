// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "plait/formula/forms.hpp"
#include "plait/placement/placement.hpp"
#include "plait/testing/formula_interpreter.hpp"

/// Runs all nodes of a formula on several ranks, and joins the ranks' results.
namespace plait::testing::tables {

/// The inputs, the parameters and the gradient of the output in a trial. Their elements are uneven
/// numbers of both signs.
struct given_numbers {
  std::vector<numbers> inputs, parameters;
  numbers dy, term_seed;  ///< term_seed: for each row, the gradient of the loss's term; equals dy
                          ///< if the layer is a loss

  given_numbers(node_maker const& maker, unsigned seed, double scale = 0.6) {
    auto const fill = [&](int value, double factor) {
      numbers out(maker.shape(value).count());
      for (double& each : out) {
        seed = seed * 1664525u + 1013904223u;
        each = factor * (double(seed >> 8) / double(1 << 23) - 1.03);
      }
      return out;
    };
    table const& g = maker.g;
    for (int k = 0; k < g.input_count; ++k) {
      inputs.push_back(fill(g.inputs[k], 1));
      if (!g.at[g.inputs[k]].is_tokens) continue;
      for (double& id : inputs.back()) id = std::floor(5 * std::abs(id));
    }
    for (int k = 0; k < g.parameter_count; ++k) parameters.push_back(fill(g.parameters[k], scale));
    dy = fill(g.output, 1);
    if (g.is_loss) term_seed = dy;
    else if (g.loss_term >= 0) term_seed = fill(g.loss_term, 1);
  }
};

/// Returns the larger of two distances; infinity for NaN.
inline double worse(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::infinity() : std::max(a, b);
}

/// The whole output and the whole gradients of inputs and parameters. A layer's term of the loss is
/// appended to the output.
struct outcome_of_table {
  numbers y;
  std::vector<numbers> dx, dp;
  /// The largest difference between values that should be equal on all ranks.
  double unlike = 0;

  [[nodiscard]] double distance_to(outcome_of_table const& other) const {
    double out = unlike + other.unlike;
    auto const compare = [&](numbers const& a, numbers const& b) {
      if (a.size() != b.size()) out = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < std::min(a.size(), b.size()); ++k)
        out = worse(out, std::abs(a[k] - b[k]) / (1 + std::abs(a[k])));
    };
    compare(y, other.y);
    for (std::size_t k = 0; k < dx.size(); ++k) compare(dx[k], other.dx[k]);
    for (std::size_t k = 0; k < dp.size(); ++k) compare(dp[k], other.dp[k]);
    return out;
  }
};

/// Appends a term of the loss to the output of a layer.
inline void add_term(table const& g, numbers const& term, numbers& y) {
  if (g.loss_term >= 0 && !g.is_loss) y.insert(y.end(), term.begin(), term.end());
}

/// The values of all nodes of a table, on each of several ranks.
class table_run {
 public:
  /// `partial`: the values of which each rank has a summand; `completed`: the values that are
  /// summed over the ranks.
  table_run(table const& of, std::vector<element_function> const& functions,
            given_numbers const& given, int variable = values_of_form::nothing,
            std::size_t ranks = 1, std::vector<bool> const& partial = {},
            std::vector<bool> const& completed = {})
      : g(of), values_(ranks, std::vector<numbers>(std::size_t(of.size))) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      makers_.emplace_back(g, functions);
      makers_[rank].variable = variable, makers_[rank].ranks = ranks, makers_[rank].rank = rank;
    }
    for (int i = 0; i < g.size; ++i) {
      node const& n = g.at[i];
      if (n.is_inlined || n.kind == node_kind::none) continue;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        auto const at = [&](int value) -> numbers const& {
          return values_[rank][std::size_t(value)];
        };
        auto& maker = makers_[rank];
        numbers& out = values_[rank][std::size_t(i)];
        bool const is_summand = !partial.empty() && partial[std::size_t(i)];
        if (n.kind == node_kind::input) {
          out = maker.block_of(i, given.inputs[std::size_t(n.number)]);
          if (is_summand) take_summand(out, rank, ranks);
        } else if (n.kind == node_kind::parameter) {
          out = maker.block_of(i, given.parameters[std::size_t(n.number)]);
          // Only rank 0 adds the parameter, so the other ranks have zeros.
          if (is_summand && rank > 0) out.assign(out.size(), 0);
        } else if (n.kind == node_kind::output_gradient || n.kind == node_kind::seed) {
          out = maker.block_of(i, n.kind == node_kind::seed ? given.term_seed : given.dy);
        } else {
          maker.make(i, at, out);
        }
      }
      if (!completed.empty() && completed[std::size_t(i)]) add_up(i);
    }
  }

  /// Returns a whole value, joined from the ranks' blocks, summands, or equal copies. `unlike`:
  /// increased to the largest difference between copies.
  numbers whole(int value, bool is_partial, double& unlike) const {
    if (value < 0) return {};
    std::vector<numbers> each;
    for (auto const& of_rank : values_) each.push_back(of_rank[std::size_t(value)]);
    return joined(value, each, is_partial, unlike);
  }
  /// Returns the whole gradient of a parameter, to which several nodes may add.
  numbers gradient_of_parameter(int parameter, bool is_partial, double& unlike) const {
    int const value = g.parameters[parameter];
    std::vector<numbers> each;
    for (std::size_t rank = 0; rank < values_.size(); ++rank) {
      each.emplace_back(makers_[rank].shape(value).count());
      for (int i = g.forward_size; i < g.size; ++i)
        if (g.at[i].parameter == parameter)
          for (std::size_t k = 0; k < each.back().size(); ++k)
            each.back()[k] += values_[rank][std::size_t(i)][k];
    }
    return joined(value, each, is_partial, unlike);
  }
  /// Returns true if the ranks' results form the expected whole. Each result may be in blocks, in
  /// equal copies, or in summands.
  [[nodiscard]] bool makes(outcome_of_table const& expected) const {
    auto const is_right = [](numbers const& whole, auto get, bool may_be_sum = true) {
      for (int is_sum = 0; is_sum <= (may_be_sum ? 1 : 0); ++is_sum) {
        double worst = 0;
        numbers const got = get(is_sum == 1, worst);
        if (got.size() != whole.size()) continue;
        for (std::size_t k = 0; k < got.size(); ++k)
          worst = worse(worst, std::abs(got[k] - whole[k]) / (1 + std::abs(whole[k])));
        if (worst < 1e-7) return true;
      }
      return false;
    };
    // A loss, or a term of the loss, must be whole on each rank.
    bool out = is_right(
        expected.y,
        [&](bool is_sum, double& unlike) {
          numbers y = whole(g.output, is_sum, unlike);
          add_term(g, whole(g.loss_term, false, unlike), y);
          return y;
        },
        !g.is_loss);
    for (int k = 0; out && k < g.input_count; ++k)
      out = is_right(expected.dx[std::size_t(k)], [&](bool is_sum, double& unlike) {
        return whole(g.gradient[g.inputs[k]], is_sum, unlike);
      });
    for (int k = 0; out && k < g.parameter_count; ++k)
      out = is_right(expected.dp[std::size_t(k)], [&](bool is_sum, double& unlike) {
        return gradient_of_parameter(k, is_sum, unlike);
      });
    return out;
  }

 private:
  /// Sums a value over all ranks and stores the sum on each.
  void add_up(int value) {
    numbers sum = values_[0][std::size_t(value)];
    for (std::size_t rank = 1; rank < values_.size(); ++rank)
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += values_[rank][std::size_t(value)][k];
    for (auto& of_rank : values_) of_rank[std::size_t(value)] = sum;
  }
  /// Turns a whole value into this rank's summand of it. The summands of the ranks differ in sign
  /// and size.
  static void take_summand(numbers& of, std::size_t rank, std::size_t ranks) {
    double const others = double(ranks - 1);
    for (std::size_t k = 0; k < of.size(); ++k) {
      double const other = 0.3 * of[k] - 0.7 + 0.5 * double(k % 3);
      of[k] = rank == 0 ? of[k] - others * other : other;
    }
  }
  numbers joined(int value, std::vector<numbers> const& each, bool is_partial,
                 double& unlike) const {
    node const& n = g.at[value];
    bool is_cut = makers_[0].is_cut(n.rows);
    for (int f = 0; f < n.factor_count; ++f) is_cut = is_cut || makers_[0].is_cut(n.factors[f]);
    std::size_t const ranks = each.size();
    numbers out(each[0].size() * (is_cut ? ranks : 1));
    for (std::size_t rank = 0; rank < ranks; ++rank)
      for (std::size_t k = 0; k < each[rank].size(); ++k) {
        double const number = each[rank][k];
        if (is_cut) out[makers_[rank].whole_element(value, k)] = number;
        else if (is_partial || rank == 0) out[k] += number;
        else unlike = worse(unlike, std::abs(out[k] - number));
      }
    return out;
  }

  table const& g;
  std::vector<node_maker> makers_;
  std::vector<std::vector<numbers>> values_;
};

/// Runs the table on one rank.
inline outcome_of_table run_whole(table const& g, std::vector<element_function> const& functions,
                                  given_numbers const& given) {
  table_run const run(g, functions, given);
  outcome_of_table out;
  out.y = run.whole(g.output, false, out.unlike);
  add_term(g, run.whole(g.loss_term, false, out.unlike), out.y);
  for (int k = 0; k < g.input_count; ++k)
    out.dx.push_back(run.whole(g.gradient[g.inputs[k]], false, out.unlike));
  for (int k = 0; k < g.parameter_count; ++k)
    out.dp.push_back(run.gradient_of_parameter(k, false, out.unlike));
  return out;
}

/// Runs the table on ranks that cut a variable, and joins the results according to the placements
/// of the form. The gradient of a replicate value is the sum of the ranks' summands; other
/// gradients are whole or in blocks.
inline outcome_of_table run_form(table const& g, std::vector<element_function> const& functions,
                                 given_numbers const& given, values_of_form const& form,
                                 int variable, std::size_t ranks) {
  std::vector<bool> partial, completed;
  for (int i = 0; i < g.size; ++i)
    partial.push_back(form.is_partial(i)), completed.push_back(form.is_completed(i));
  table_run const run(g, functions, given, variable, ranks, partial, completed);
  auto const has_summands = [](plait::placement at) { return at == plait::replicate; };
  outcome_of_table out;
  out.y = run.whole(g.output, form.placement_of(g.output) == plait::partial, out.unlike);
  add_term(g, run.whole(g.loss_term, false, out.unlike), out.y);
  for (int k = 0; k < g.input_count; ++k)
    out.dx.push_back(run.whole(g.gradient[g.inputs[k]],
                               has_summands(form.placement_of(g.inputs[k])), out.unlike));
  for (int k = 0; k < g.parameter_count; ++k)
    out.dp.push_back(
        run.gradient_of_parameter(k, has_summands(form.placement_of_parameter(k)), out.unlike));
  return out;
}

// ---- Trials of cuts -----------------------------------------------------------------------------

/// The graph and the element-wise functions of a formula, as one type for all formulas.
struct tried_formula {
  table g;
  std::vector<element_function> functions;

  [[nodiscard]] given_numbers given(unsigned seed = 7) const {
    return given_numbers(node_maker(g, functions), seed);
  }
  [[nodiscard]] outcome_of_table run(given_numbers const& of) const {
    return run_whole(g, functions, of);
  }
};
template <class Facts>
tried_formula as_tried() {
  return {as_table(Facts::table), functions_of_table<Facts>()};
}

/// The cut of one variable of a formula among ranks, and the result of the trial of this cut.
struct tried_cut {
  int variable = values_of_form::nothing;
  bool is_listed = false;  ///< the rules of formula/forms.hpp let ranks cut the variable
  /// The numbers of ranks of the trial; empty if none of them divides the length.
  std::vector<int> ranks{};
  /// The largest difference between the results of a listed form and the results on one rank.
  double distance = 0;
  bool works_anyway = false;  ///< the rules refuse the cut, but the results are right

  formula::refusal why = formula::refusal::none;  ///< the reason for a refusal

  /// Returns true if the rules refuse a cut that works. It is not a fault of the rules if a kernel
  /// cannot process separate pieces of columns, or if each rank would have a part of the loss.
  [[nodiscard]] bool is_missing() const {
    return !is_listed && works_anyway && !ranks.empty() && why != formula::refusal::in_pieces &&
           why != formula::refusal::of_function && why != formula::refusal::cuts_loss;
  }
};

/// Returns true if ranks that cut a variable compute right numbers. The rules of forms are not
/// applied: each rank has blocks of the inputs and parameters that have the variable, and runs all
/// nodes on them. The ranks' blocks, equal copies or summands must then form the output and the
/// gradients. A parameter with one row that lacks the variable may be added on one rank only.
inline bool works_on_trial(tried_formula const& of, given_numbers const& given, int variable,
                           std::size_t ranks, outcome_of_table const& whole) {
  table const& g = of.g;
  std::vector<int> rows;
  for (int k = 0; k < g.parameter_count; ++k)
    if (!g.at[g.parameters[k]].is_matrix && rows.size() < 4) rows.push_back(g.parameters[k]);
  for (unsigned once = 0; once < 1u << rows.size(); ++once) {
    std::vector<bool> partial(std::size_t(g.size));
    for (int k = 0; k < g.input_count; ++k)
      partial[std::size_t(g.inputs[k])] = variable == values_of_form::summands;
    for (std::size_t k = 0; k < rows.size(); ++k)
      partial[std::size_t(rows[k])] = (once >> k & 1) != 0;
    try {
      table_run const run(g, of.functions, given, variable, ranks, partial);
      if (run.makes(whole)) return true;
    } catch (std::out_of_range const&) {  // a node read a block where it needs the whole value
    }
  }
  return false;
}

/// Returns the largest distance between the results of a form and the results of one rank. It is
/// infinity if a node reads a block where it needs the whole value.
inline double distance_of_form(tried_formula const& of, given_numbers const& given,
                               values_of_form const& form, int variable, std::size_t ranks,
                               outcome_of_table const& whole) {
  try {
    return whole.distance_to(run_form(of.g, of.functions, given, form, variable, ranks));
  } catch (std::out_of_range const&) {
    return std::numeric_limits<double>::infinity();
  }
}
inline tried_cut try_cut(tried_formula const& of, int variable, given_numbers const& given,
                         outcome_of_table const& whole) {
  table const& g = of.g;
  tried_cut out{.variable = variable};
  values_of_form form(g, variable);
  out.is_listed = form.run();
  out.works_anyway = !out.is_listed;
  out.why = form.why;
  for (int ranks = 2; ranks <= 4; ++ranks) {
    bool divides = variable != formula::row_variable ||
                   node_maker(g, of.functions).positions % std::size_t(ranks) == 0;
    for (int v = 0; v < g.variables; ++v)
      if (g.root(v) == variable) divides = divides && g.extents[v] % (g.pieces_of(v) * ranks) == 0;
    if (!divides) continue;
    out.ranks.push_back(ranks);
    if (out.is_listed)
      out.distance = worse(out.distance,
                           distance_of_form(of, given, form, variable, std::size_t(ranks), whole));
    else
      out.works_anyway =
          out.works_anyway && works_on_trial(of, given, variable, std::size_t(ranks), whole);
  }
  return out;
}
/// Tries to cut each variable of a formula, listed or not, and runs the form in which all ranks do
/// the same work.
inline std::vector<tried_cut> try_cuts(tried_formula const& of) {
  table const& g = of.g;
  auto const given = of.given();
  auto const whole = of.run(given);
  std::vector<tried_cut> out{try_cut(of, values_of_form::nothing, given, whole)};
  std::vector<bool> is_in_forward(std::size_t(g.variables));
  auto const visit = [&](dimension const& of_value) {
    if (of_value.variable >= 0) is_in_forward[std::size_t(g.root(of_value.variable))] = true;
  };
  for (int i = 0; i < g.forward_size; ++i) {
    visit(g.at[i].rows);
    for (int f = 0; f < g.at[i].factor_count; ++f) visit(g.at[i].factors[f]);
  }
  for (int v = 0; v < g.variables; ++v)
    if (is_in_forward[std::size_t(v)]) out.push_back(try_cut(of, v, given, whole));
  if (g.parameter_count == 0) out.push_back(try_cut(of, values_of_form::summands, given, whole));
  return out;
}

}  // namespace plait::testing::tables
