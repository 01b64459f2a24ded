// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/formula/facts.hpp"
#include "plait/formula/forms.hpp"
#include "plait/formula/fused.hpp"
#include "plait/formula/graph.hpp"
#include "plait/formula/node.hpp"
#include "plait/testing/formula_images.hpp"

/// Computes the nodes of a formula on arrays of double, as whole values or as the part that one of
/// several ranks has. The code shares nothing with the operations that a layer issues, so each
/// checks the other.
namespace plait::testing::tables {

using formula::dimension;
using formula::node;
using formula::node_kind;

/// Numbers that are read with a checked index, because a trial also runs cuts that cannot work.
class numbers : public std::vector<double> {
 public:
  using std::vector<double>::vector;
  double& operator[](std::size_t index) { return at(index); }
  double const& operator[](std::size_t index) const { return at(index); }
};

/// The type of the graphs (tables of nodes) of all formulas. Tests may change a graph.
using table = formula::graph<256>;
using values_of_form = formula::cut_values<table>;

template <class Graph>
table as_table(Graph const& from) {
  table out;
  std::copy_n(from.at, from.size, out.at);
  std::copy_n(from.gradient, from.size, out.gradient);
  std::copy_n(from.inputs, from.most_inputs, out.inputs);
  std::copy_n(from.parameters, from.parameter_count, out.parameters);
  std::copy_n(from.parent, from.variables, out.parent);
  std::copy_n(from.pieces, from.variables, out.pieces);
  std::copy_n(from.is_whole, from.variables, out.is_whole);
  std::copy_n(from.extents, from.variables, out.extents);
  out.size = from.size, out.forward_size = from.forward_size, out.output = from.output;
  out.input_count = from.input_count, out.parameter_count = from.parameter_count;
  out.loss_term = from.loss_term, out.is_loss = from.is_loss;
  out.sequence = from.sequence, out.variables = from.variables, out.wrong = from.wrong;
  return out;
}

/// An element-wise function (a map) of a table, or the derivative (slope) of a map. It is called
/// with the place of an element and the values of the node's operands there.
using element_function = double (*)(formula::index_place const&, double const*);

template <class Function, std::size_t... K>
double call_with(formula::index_place const& place, double const* operands,
                 std::index_sequence<K...>) {
  return Function{}(place, operands[K]...);
}
template <class Facts, int I>
constexpr element_function function_of_node() {
  constexpr node n = Facts::table.at[I];
  using operands = std::make_index_sequence<std::size_t(n.count)>;
  if constexpr (n.kind == node_kind::map && !n.is_inlined && n.count > 0)
    return [](formula::index_place const& place, double const* given) {
      return call_with<formula::map_value<Facts, I>>(place, given, operands{});
    };
  else if constexpr (n.kind == node_kind::slope)
    return [](formula::index_place const& place, double const* given) {
      return call_with<formula::map_slope<Facts, I>>(place, given, operands{});
    };
  else return nullptr;
}
template <class Facts>
std::vector<element_function> functions_of_table() {
  return []<int... I>(std::integer_sequence<int, I...>) {
    return std::vector<element_function>{function_of_node<Facts, I>()...};
  }(std::make_integer_sequence<int, Facts::table.size>{});
}

/// The shape of one rank's part of a value: the number of rows, and the factors whose product is
/// the number of columns. Elements are stored row by row.
struct local_shape {
  std::size_t rows = 1;
  std::size_t factors[node::most_factors]{1, 1, 1};
  int factor_count = 0;

  [[nodiscard]] std::size_t width() const {
    std::size_t out = 1;
    for (int f = 0; f < factor_count; ++f) out *= factors[f];
    return out;
  }
  [[nodiscard]] std::size_t count() const { return rows * width(); }
  [[nodiscard]] std::size_t last() const {
    return factor_count == 0 ? 1 : factors[factor_count - 1];
  }
  /// Splits a column number into one index for each factor of the columns.
  void split(std::size_t column, std::size_t (&out)[node::most_factors]) const {
    for (int f = factor_count - 1; f >= 0; --f) out[f] = column % factors[f], column /= factors[f];
  }
  /// Returns the index of the element of this shape that an element of `made` reads under
  /// broadcasting: the factors of both shapes are aligned at the last factor, and a factor of 1 is
  /// repeated.
  [[nodiscard]] std::size_t aligned(local_shape const& made, std::size_t row,
                                    std::size_t column) const {
    std::size_t of_made[node::most_factors]{}, out = rows == 1 ? 0 : row;
    made.split(column, of_made);
    for (int f = 0; f < factor_count; ++f) {
      int const same = made.factor_count - factor_count + f;
      out = out * factors[f] + (factors[f] == 1 || same < 0 ? 0 : of_made[same]);
    }
    return out;
  }
};

/// Computes the nodes of a table, for one rank.
class node_maker {
 public:
  static constexpr double epsilon = 1e-5;  // epsilon of norms

  table const& g;
  std::vector<element_function> const& functions;
  int variable = values_of_form::nothing;  ///< the variable that ranks cut
  std::size_t ranks = 1, rank = 0;
  std::size_t batch = 2, positions = 6;

  node_maker(table const& of, std::vector<element_function> const& with)
      : g(of), functions(with), positions(of.sequence > 0 ? std::size_t(of.sequence) : 6) {}

  [[nodiscard]] bool is_cut(dimension const& of) const {
    return variable >= 0 && of.variable >= 0 && g.root(of.variable) == variable;
  }
  [[nodiscard]] std::size_t length(dimension const& of) const {
    return std::size_t(of.extent) / (is_cut(of) ? ranks : 1);
  }
  [[nodiscard]] std::size_t local_positions() const {
    return positions / (is_cut({formula::row_variable, 0}) ? ranks : 1);
  }
  [[nodiscard]] local_shape shape(int value) const {
    node const& n = g.at[value];
    local_shape out;
    out.rows = n.is_per_row() ? batch * local_positions() : length(n.rows);
    out.factor_count = n.factor_count;
    for (int f = 0; f < n.factor_count; ++f) out.factors[f] = length(n.factors[f]);
    return out;
  }
  /// Returns the index in the whole dimension, given an index in this rank's block.
  [[nodiscard]] std::size_t whole_index(dimension const& of, std::size_t index) const {
    if (!is_cut(of)) return index;
    std::size_t const piece = std::size_t(of.extent / g.pieces_of(of.variable));
    std::size_t const block = piece / ranks;
    return index / block * piece + rank * block + index % block;
  }
  [[nodiscard]] std::size_t whole_row(int value, std::size_t row) const {
    if (!g.at[value].is_per_row()) return whole_index(g.at[value].rows, row);
    return is_cut(g.at[value].rows) ? rank * local_positions() * batch + row : row;
  }
  /// Returns the number of an element in the whole value, given its number in this rank's part.
  [[nodiscard]] std::size_t whole_element(int value, std::size_t element) const {
    local_shape const here = shape(value);
    std::size_t index[node::most_factors]{};
    here.split(element % here.width(), index);
    std::size_t out = whole_row(value, element / here.width());
    for (int f = 0; f < here.factor_count; ++f)
      out = out * std::size_t(g.at[value].factors[f].extent) +
            whole_index(g.at[value].factors[f], index[f]);
    return out;
  }
  [[nodiscard]] numbers block_of(int value, numbers const& whole) const {
    numbers out(shape(value).count());
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = whole[whole_element(value, k)];
    return out;
  }

  /// Computes node i from its operands: `at(value)` returns the numbers of a value. The result
  /// overwrites `out`. For an element-wise function, `out` may be the memory of an operand.
  template <class Values>
  void make(int i, Values const& at, numbers& out) const {
    node const& n = g.at[i];
    local_shape const made = shape(i);
    auto const in = [&](int k) -> numbers const& { return at(n.operands[k]); };
    auto const of = [&](int k) { return shape(n.operands[k]); };
    bool const is_function = n.kind == node_kind::map || n.kind == node_kind::slope ||
                             n.kind == node_kind::add || n.kind == node_kind::multiply;
    if (!is_function) out.assign(made.count(), 0);
    else out.resize(made.count());
    switch (n.kind) {
      case node_kind::product: return product(n, in, of, made, out);
      case node_kind::weight_gradient: return weight_gradient(n, in, of, made, out);
      case node_kind::map:
      case node_kind::slope: return map(i, n, in, of, made, out);
      case node_kind::add:
        for (std::size_t k = 0; k < out.size(); ++k) out[k] = in(0)[k] + in(1)[k];
        return;
      case node_kind::multiply:
        for (std::size_t k = 0; k < out.size(); ++k) out[k] = in(0)[k] * in(1)[k];
        return;
      case node_kind::broadcast:
        for (std::size_t k = 0; k < out.size(); ++k)
          out[k] = n.factor * in(0)[of(0).aligned(made, k / made.width(), k % made.width())];
        return;
      case node_kind::reduce:
        for (std::size_t k = 0; k < in(0).size(); ++k) out[k / of(0).last()] += n.factor * in(0)[k];
        return;
      case node_kind::sum_of_factors: {
        std::size_t const width = of(0).width();
        for (std::size_t k = 0; k < in(0).size(); ++k)
          out[k / width * made.width() + k % width % made.width()] += in(0)[k];
        return;
      }
      case node_kind::column_sum: {
        local_shape const x = of(0);
        std::size_t const together = std::max<std::size_t>(std::size_t(n.pieces), 1);
        for (std::size_t k = 0; k < in(0).size(); ++k)
          out[n.pieces > 0                ? k % x.width() / together
              : made.width() == x.width() ? k % x.width()
                                          : made.aligned(x, 0, k % x.width())] += in(0)[k];
        return;
      }
      case node_kind::reshape: out = in(0); return;
      case node_kind::part:
        for (std::size_t k = 0; k < out.size(); ++k)
          out[k] = in(0)[k / made.width() * of(0).width() + std::size_t(n.number) * made.width() +
                         k % made.width()];
        return;
      case node_kind::concat: {
        std::size_t const piece = made.width() / std::size_t(n.count);
        if (piece == 0) throw std::out_of_range("a rank has fewer columns than pieces");
        for (std::size_t k = 0; k < out.size(); ++k) {
          std::size_t const row = k / made.width(), column = k % made.width();
          int const from = n.operands[column / piece];
          if (from >= 0) out[k] = at(from)[row * piece + column % piece];
        }
        return;
      }
      case node_kind::contract: return contract(n, in, of, made, out);
      case node_kind::softmax: return softmax(n, in, made, out);
      case node_kind::softmax_gradient:
        for (std::size_t k = 0; k < out.size(); k += made.last()) {
          double sum = 0;
          for (std::size_t j = k; j < k + made.last(); ++j) sum += in(0)[j] * in(1)[j];
          for (std::size_t j = k; j < k + made.last(); ++j) out[j] = in(0)[j] * (in(1)[j] - sum);
        }
        return;
      case node_kind::shift: {
        std::size_t const step = batch * made.width(), distance = std::size_t(std::abs(n.steps));
        for (std::size_t k = 0; k < out.size(); ++k) {
          std::size_t const position = k / step;
          if (n.steps >= 0 && position >= distance) out[k] = in(0)[k - distance * step];
          if (n.steps < 0 && position + distance < local_positions())
            out[k] = in(0)[k + distance * step];
        }
        return;
      }
      case node_kind::scan: {
        std::size_t const step = batch * made.width();
        int const last = n.count - 1;
        for (std::size_t k = 0; k < out.size(); ++k)
          out[k] = in(last)[k] + (k < step ? 0 : (last == 0 ? n.factor : in(0)[k]) * out[k - step]);
        return;
      }
      case node_kind::scan_gradient: {
        std::size_t const step = batch * made.width();
        int const last = n.count - 1;
        for (std::size_t k = out.size(); k-- > 0;)
          out[k] = in(last)[k] + (k + step >= out.size()
                                      ? 0
                                      : (last == 0 ? n.factor : in(0)[k + step]) * out[k + step]);
        return;
      }
      case node_kind::log_sum_exp:
      case node_kind::maximum:
      case node_kind::log_sum_exp_gradient:
      case node_kind::maximum_gradient: return of_rows(n, in, of(0).last(), out);
      case node_kind::pick:
        for (std::size_t k = 0; k < out.size(); ++k)
          if (is_column(in(1)[k], of(0).width()))
            out[k] = in(0)[k * of(0).width() + std::size_t(in(1)[k])];
        return;
      case node_kind::pick_gradient:
        for (std::size_t k = 0; k < in(1).size(); ++k)
          if (is_column(in(0)[k], made.width()))
            out[k * made.width() + std::size_t(in(0)[k])] = in(1)[k];
        return;
      case node_kind::across:
        for (std::size_t k = 0; k < out.size(); ++k) {
          std::size_t const row = k / made.width() % batch, other = k % positions;
          out[k] = in(0)[(other * batch + row) * of(0).width() + k % made.width() / positions];
        }
        return;
      case node_kind::across_gradient:
        for (std::size_t k = 0; k < out.size(); ++k) {
          std::size_t const s = k / made.width() / batch, row = k / made.width() % batch;
          for (std::size_t t = 0; t < positions; ++t)
            out[k] += in(0)[(t * batch + row) * of(0).width() + k % made.width() * positions + s];
        }
        return;
      case node_kind::call:
        if (n.windows.kernel > 0) return on_images(i, at, out);
        return call(n, n, 0, at, out);
      case node_kind::attention: return attention(i, 0, at, out);
      case node_kind::attention_gradient: return attention_gradient(n, 0, at, out);
      case node_kind::result: {
        int const first = n.operands[0];
        if (g.at[first].kind == node_kind::attention) return attention(first, 1, at, out);
        if (g.at[first].kind == node_kind::attention_gradient)
          return attention_gradient(g.at[first], n.number, at, out);
        return call(g.at[first], n, i - first, at, out);
      }
      default: return;
    }
  }

 private:
  void product(node const& n, auto in, auto of, local_shape const& made, numbers& out) const {
    std::size_t const inner = of(0).width(), columns = made.width();
    for (std::size_t r = 0; r < made.rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) {
        double sum = n.count == 3 ? in(2)[c] : 0;
        for (std::size_t k = 0; k < inner; ++k)
          sum += in(0)[r * inner + k] * in(1)[n.is_transposed ? c * inner + k : k * columns + c];
        out[r * columns + c] = sum;
      }
  }
  void weight_gradient(node const& n, auto in, auto of, local_shape const& made,
                       numbers& out) const {
    std::size_t const inputs = of(0).width(), outputs = of(1).width();
    for (std::size_t r = 0; r < of(0).rows; ++r)
      for (std::size_t i = 0; i < inputs; ++i)
        for (std::size_t o = 0; o < outputs; ++o)
          out[n.is_transposed ? o * made.width() + i : i * made.width() + o] +=
              in(0)[r * inputs + i] * in(1)[r * outputs + o];
  }
  void map(int i, node const& n, auto in, auto of, local_shape const& made, numbers& out) const {
    for (std::size_t k = 0; k < out.size(); ++k) {
      std::size_t const row = k / made.width(), column = k % made.width();
      std::size_t const whole = whole_row(i, row);
      formula::index_place place{whole / batch, whole % batch, {}};
      made.split(column, place.factors);
      for (int f = 0; f < made.factor_count; ++f)
        place.factors[f] = whole_index(n.factors[f], place.factors[f]);
      place.random = {{7, 1, 3}, whole_element(i, k), true};
      double operands[node::most_operands]{};
      for (int j = 0; j < n.count; ++j) operands[j] = in(j)[of(j).aligned(made, row, column)];
      out[k] = functions[std::size_t(i)](place, operands);
    }
  }
  void softmax(node const& n, auto in, local_shape const& made, numbers& out) const {
    std::size_t const rows_of_position = out.size() / made.last() / local_positions();
    for (std::size_t row = 0; row < out.size() / made.last(); ++row) {
      double const* const x = in(0).data() + row * made.last();
      double* const y = out.data() + row * made.last();
      std::size_t const count =
          n.is_causal ? std::min(row / rows_of_position + 1, made.last()) : made.last();
      double const most = *std::max_element(x, x + count);
      double sum = 0;
      for (std::size_t k = 0; k < count; ++k) sum += y[k] = std::exp(x[k] - most);
      for (std::size_t k = 0; k < count; ++k) y[k] /= sum;
    }
  }
  static bool is_column(double id, std::size_t width) { return id >= 0 && id < double(width); }
  /// Computes the log-sum-exp or the maximum of each row, or the gradient of one of them, as the
  /// node requires.
  void of_rows(node const& n, auto in, std::size_t width, numbers& out) const {
    for (std::size_t row = 0; row < in(0).size() / width; ++row) {
      double const* const x = in(0).data() + row * width;
      auto const place = std::size_t(std::max_element(x, x + width) - x);
      double sum = 0;
      for (std::size_t c = 0; c < width; ++c) sum += std::exp(x[c] - x[place]);
      if (n.kind == node_kind::log_sum_exp) out[row] = x[place] + std::log(sum);
      if (n.kind == node_kind::maximum) out[row] = x[place];
      if (n.kind == node_kind::maximum_gradient) out[row * width + place] = in(1)[row];
      for (std::size_t c = 0; n.kind == node_kind::log_sum_exp_gradient && c < width; ++c)
        out[row * width + c] = std::exp(x[c] - in(1)[row]) * in(2)[row];
    }
  }
  /// Computes a contraction (a sum of products over indices named by letters, as in einsum) with
  /// one loop for each letter. The letter of an operand's rows is the index of the position.
  void contract(node const& n, auto in, auto of, local_shape const& made, numbers& out) const {
    std::size_t lengths[26]{}, index[26]{};
    local_shape const shapes[]{of(0), of(1), made};
    auto const letter = [&](int side, int d) { return std::size_t(n.letters[side][d] - 'a'); };
    for (int side = 0; side < 3; ++side)
      for (int d = 0; d <= shapes[side].factor_count; ++d)
        lengths[letter(side, d)] = d == 0 ? local_positions() : shapes[side].factors[d - 1];
    std::size_t count = 1;
    for (std::size_t const each : lengths) count *= std::max<std::size_t>(each, 1);
    for (std::size_t j = 0; j < count * batch; ++j) {
      std::size_t rest = j / batch;
      for (std::size_t l = 0; l < 26; ++l)
        if (lengths[l] > 0) index[l] = rest % lengths[l], rest /= lengths[l];
      std::size_t element[3]{};
      for (int side = 0; side < 3; ++side) {
        element[side] = index[letter(side, 0)] * batch + j % batch;
        for (int d = 1; d <= shapes[side].factor_count; ++d)
          element[side] = element[side] * shapes[side].factors[d - 1] + index[letter(side, d)];
      }
      out[element[2]] += in(0)[element[0]] * in(1)[element[1]];
    }
  }

  // ---- Causal attention; several query heads may read one head of keys and values ---------------

  struct head_shape {
    std::size_t heads, width, queries, keys;  ///< columns of queries and of keys
    std::size_t shared;  ///< number of query heads that read one head of keys and values
  };
  [[nodiscard]] head_shape heads_of(int attention) const {
    int const* const operands = g.at[attention].operands;
    std::size_t const heads = shape(attention + 1).width();
    std::size_t const queries = shape(operands[0]).width(), keys = shape(operands[1]).width();
    return {heads, queries / heads, queries, keys, std::max<std::size_t>(queries / keys, 1)};
  }
  /// Fills `out` with the scores of a position with itself and with each earlier position; returns
  /// the largest score.
  static double scores(head_shape const& of, std::size_t batch, std::size_t row, std::size_t head,
                       numbers const& q, numbers const& k, numbers& out) {
    out.assign(row / batch + 1, 0);
    for (std::size_t t = 0; t < out.size(); ++t)
      for (std::size_t c = 0; c < of.width; ++c)
        out[t] += q[row * of.queries + head * of.width + c] *
                  k[(t * batch + row % batch) * of.keys + head / of.shared * of.width + c] /
                  std::sqrt(double(of.width));
    return *std::max_element(out.begin(), out.end());
  }
  void attention(int i, int number, auto const& at, numbers& out) const {
    int const* const operands = g.at[i].operands;
    head_shape const of = heads_of(i);
    numbers score;
    for (std::size_t row = 0; row < batch * local_positions(); ++row)
      for (std::size_t head = 0; head < of.heads; ++head) {
        double const most = scores(of, batch, row, head, at(operands[0]), at(operands[1]), score);
        double sum = 0;
        for (double const each : score) sum += std::exp(each - most);
        if (number == 1) out[row * of.heads + head] = most + std::log(sum);
        for (std::size_t t = 0; number == 0 && t < score.size(); ++t)
          for (std::size_t c = 0; c < of.width; ++c)
            out[row * of.queries + head * of.width + c] +=
                std::exp(score[t] - most) / sum *
                at(operands[2])[(t * batch + row % batch) * of.keys + head / of.shared * of.width +
                                c];
      }
  }
  /// Computes a gradient of attention: with respect to the queries if `number` is 0, to the keys if
  /// it is 1, and to the values if it is 2.
  void attention_gradient(node const& n, int number, auto const& at, numbers& out) const {
    head_shape const of = heads_of(n.of);
    auto const in = [&](int k) -> numbers const& { return at(n.operands[k]); };
    numbers score;
    for (std::size_t row = 0; row < batch * local_positions(); ++row)
      for (std::size_t head = 0; head < of.heads; ++head) {
        scores(of, batch, row, head, in(0), in(1), score);
        std::size_t const query = row * of.queries + head * of.width;
        double product = 0;  // scalar product of the output and the gradient of the output
        for (std::size_t c = 0; c < of.width; ++c) product += in(3)[query + c] * in(5)[query + c];
        for (std::size_t t = 0; t < score.size(); ++t) {
          std::size_t const key = (t * batch + row % batch) * of.keys + head / of.shared * of.width;
          double const share = std::exp(score[t] - in(4)[row * of.heads + head]);
          double slope = -product;
          for (std::size_t c = 0; c < of.width; ++c) slope += in(5)[query + c] * in(2)[key + c];
          slope *= share / std::sqrt(double(of.width));
          for (std::size_t c = 0; c < of.width; ++c) {
            if (number == 0) out[query + c] += slope * in(1)[key + c];
            if (number == 1) out[key + c] += slope * in(0)[query + c];
            if (number == 2) out[key + c] += share * in(5)[query + c];
          }
        }
      }
  }

  void on_images(int i, auto const& at, numbers& out) const {
    node const& n = g.at[i];
    node const& forward = g.at[n.of < 0 ? i : n.of];
    int const x = forward.operands[0];
    image_call call{n.row->name, forward.windows, g.at[x].image, forward.image};
    call.rows = shape(x).rows;
    call.channels = shape(x).width() / std::size_t(call.x.map());
    call.outputs = shape(n.of < 0 ? i : n.of).width() / std::size_t(call.y.map());
    make_on_images(call, [&](int k) -> numbers const& { return at(n.operands[k]); }, out);
    std::size_t const map = std::size_t(call.y.map());
    for (std::size_t k = 0; n.of < 0 && n.count == 3 && k < out.size(); ++k)
      out[k] += at(n.operands[2])[k / map % call.outputs];
  }

  // ---- Calls of operations that operation/rows.hpp lists: computes result `number` -------------

  void call(node const& n, node const& result, int number, auto const& at, numbers& out) const {
    std::string_view const name = n.row->name;
    auto const in = [&](int k) -> numbers const& { return at(n.operands[k]); };
    auto const of = [&](int k) { return shape(n.operands[k]); };
    if (name == "gather_rows" || name == "scatter_add_rows") return look_up(n, result, in, of, out);
    bool const is_layer = name.substr(0, 5) == "layer";
    bool const is_forward = name == "layer_norm" || name == "rms_norm";
    numbers const& x = in(is_forward ? 0 : 1);
    numbers const& gamma = in(is_forward ? 1 : n.count - 1);
    std::size_t const width = of(0).last(), rows = x.size() / width;
    for (std::size_t r = 0; r < rows; ++r) {
      double const* const row = x.data() + r * width;
      double mean = 0, inverse = 0;
      if (is_forward) {
        double square = 0;
        for (std::size_t c = 0; is_layer && c < width; ++c) mean += row[c] / double(width);
        for (std::size_t c = 0; c < width; ++c)
          square += (row[c] - mean) * (row[c] - mean) / double(width);
        inverse = 1 / std::sqrt(square + epsilon);
      } else {
        if (is_layer) mean = in(2)[2 * r];
        inverse = is_layer ? in(2)[2 * r + 1] : in(2)[r];
      }
      auto const normed = [&](std::size_t c) { return (row[c] - mean) * inverse; };
      if (is_forward && number == 0) {
        for (std::size_t c = 0; c < width; ++c)
          out[r * width + c] = gamma[c] * normed(c) + (is_layer ? in(2)[c] : 0);
      } else if (is_forward) {
        if (is_layer) out[2 * r] = mean, out[2 * r + 1] = inverse;
        else out[r] = inverse;
      } else if (name == "layer_norm_backward_input" || name == "rms_norm_backward_input") {
        double sum = 0, product = 0;
        auto const slope = [&](std::size_t c) { return in(0)[r * width + c] * gamma[c]; };
        for (std::size_t c = 0; c < width; ++c)
          sum += slope(c) / double(width), product += slope(c) * normed(c) / double(width);
        for (std::size_t c = 0; c < width; ++c)
          out[r * width + c] = inverse * (slope(c) - (is_layer ? sum : 0) - normed(c) * product);
      } else {
        for (std::size_t c = 0; c < width; ++c)
          out[c] += in(0)[r * width + c] * (number == 0 ? normed(c) : 1);
      }
    }
  }
  /// Looks up rows in a table, or adds gradients to them. A rank with a block of the table has
  /// zeros for the rows of other ranks.
  void look_up(node const& n, node const& result, auto in, auto of, numbers& out) const {
    bool const is_gather = n.row->name == std::string_view("gather_rows");
    dimension const all = is_gather ? g.at[n.operands[1]].rows : result.rows;
    std::size_t const width = is_gather ? of(1).width() : of(1).width(), here = length(all);
    for (std::size_t r = 0; r < in(0).size(); ++r)
      for (std::size_t row = 0; row < here; ++row) {
        if (whole_index(all, row) != std::size_t(in(0)[r])) continue;
        for (std::size_t c = 0; c < width; ++c) {
          if (is_gather) out[r * width + c] = in(1)[row * width + c];
          else out[row * width + c] += in(1)[r * width + c];
        }
      }
  }
};

}  // namespace plait::testing::tables
