// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/formula/facts.hpp"
#include "plait/formula/terms.hpp"
#include "plait/testing/formula_trial.hpp"

/// Evaluates formulas by the definitions of their operations, read from the types of their terms,
/// without a table, joins, fusion or gradients. The table is compared with it.
namespace formula_testing {

namespace formula = plait::formula;
using namespace plait::testing::tables;

/// A value of a formula. Rows are positions times samples, or the rows of a parameter.
struct expression_value {
  bool is_per_row = false;
  std::size_t rows = 1;
  std::vector<std::size_t> factors{};
  std::size_t row_place = 0;  ///< the place of the position among the letters of a contraction
  numbers elements{};
  formula::image_shape image{};

  [[nodiscard]] std::size_t width() const {
    std::size_t out = 1;
    for (std::size_t const each : factors) out *= each;
    return out;
  }
  [[nodiscard]] std::size_t last() const { return factors.empty() ? 1 : factors.back(); }
  expression_value& make() {
    elements.assign(rows * width(), 0);
    return *this;
  }
};

class expression_words {
 public:
  std::size_t batch = 2, positions = 6;

  using value = expression_value;
  using function = double (*)(formula::index_place const&, double const*);

  value map(function f, std::vector<value const*> const& operands) const {
    value out;
    for (value const* x : operands) {
      if (x->is_per_row) out.is_per_row = true, out.rows = x->rows;
      if (x->factors.size() > out.factors.size()) {
        out.factors.insert(out.factors.begin(), x->factors.size() - out.factors.size(), 1);
        out.row_place = x->row_place;
      }
      if (x->factors.size() == out.factors.size())
        out.row_place = std::max(out.row_place, x->row_place);
      for (std::size_t f_of_x = 0; f_of_x < x->factors.size(); ++f_of_x) {
        std::size_t& made = out.factors[out.factors.size() - x->factors.size() + f_of_x];
        made = std::max(made, x->factors[f_of_x]);
      }
    }
    for (value const* x : operands)
      if (x->image.channels > 0 && x->width() == out.width()) out.image = x->image;
    out.make();
    for (std::size_t k = 0; k < out.elements.size(); ++k) {
      std::size_t const row = k / out.width();
      formula::index_place place{row / batch, row % batch, {}};
      std::size_t rest = k % out.width();
      for (std::size_t d = out.factors.size(); d-- > 0; rest /= out.factors[d])
        place.factors[d] = rest % out.factors[d];
      double given[4]{};
      for (std::size_t j = 0; j < operands.size(); ++j) {
        value const& x = *operands[j];
        std::size_t at = x.is_per_row ? row : 0;
        for (std::size_t d = 0; d < x.factors.size(); ++d)
          at = at * x.factors[d] +
               (x.factors[d] == 1 ? 0 : place.factors[out.factors.size() - x.factors.size() + d]);
        given[j] = x.elements[at];
      }
      out.elements[k] = f(place, given);
    }
    return out;
  }
  value matmul(value const& x, value const& w, bool is_transposed) const {
    std::size_t const inner = x.width(), outer = is_transposed ? w.rows : w.width();
    value out{.is_per_row = true, .rows = x.rows};
    if (outer > 1) out.factors = {outer};
    out.make();
    for (std::size_t k = 0; k < out.elements.size(); ++k)
      for (std::size_t i = 0; i < inner; ++i)
        out.elements[k] +=
            x.elements[k / outer * inner + i] *
            w.elements[is_transposed ? k % outer * inner + i : i * outer + k % outer];
    return out;
  }
  value reduce(value const& x, bool is_mean) const {
    value out = x;
    if (out.factors.size() > 1) out.factors.back() = 1;
    else out.factors.clear();
    out.make();
    for (std::size_t k = 0; k < x.elements.size(); ++k)
      out.elements[k / x.last()] += x.elements[k] / (is_mean ? double(x.last()) : 1.0);
    return out;
  }
  value reshape(value x, std::vector<std::size_t> factors) const {
    x.factors = std::move(factors);
    x.row_place = 0;
    return x;
  }
  value part(value const& x, std::size_t number, std::size_t count) const {
    value out = reshape(x, {x.width() / count});
    out.image.channels /= int(count);
    out.make();
    for (std::size_t k = 0; k < out.elements.size(); ++k)
      out.elements[k] =
          x.elements[(k / out.width() * count + number) * out.width() + k % out.width()];
    return out;
  }
  value concat(std::vector<value const*> const& operands) const {
    std::size_t const width = operands[0]->width();
    value out = reshape(*operands[0], {width * operands.size()});
    out.image.channels *= int(operands.size());
    out.make();
    for (std::size_t k = 0; k < out.elements.size(); ++k) {
      std::size_t const piece = k / width;
      out.elements[k] =
          operands[piece % operands.size()]->elements[piece / operands.size() * width + k % width];
    }
    return out;
  }
  /// Returns the sum over the letters that the result lacks, for each sample.
  value contract(std::string_view text, value const& a, value const& b) const {
    std::size_t const comma = text.find(','), arrow = text.find("->");
    std::string_view const letters[]{
        text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
    std::map<char, std::size_t> lengths, index;
    std::vector<std::size_t> dimensions[3];
    value const* const operands[]{&a, &b};
    for (int side = 0; side < 2; ++side) {
      dimensions[side] = operands[side]->factors;
      dimensions[side].insert(dimensions[side].begin() + std::ptrdiff_t(operands[side]->row_place),
                              positions);
      for (std::size_t d = 0; d < letters[side].size(); ++d)
        lengths[letters[side][d]] = dimensions[side][d];
    }
    value out{.is_per_row = true, .rows = a.rows};
    char const row_letters[]{letters[0][a.row_place], letters[1][b.row_place]};
    out.row_place = letters[2].find_first_of(std::string_view(row_letters, 2));
    for (std::size_t d = 0; d < letters[2].size(); ++d) {
      dimensions[2].push_back(lengths[letters[2][d]]);
      if (d != out.row_place) out.factors.push_back(lengths[letters[2][d]]);
    }
    out.make();
    std::size_t count = batch;
    for (auto const& [letter, length] : lengths) count *= length;
    for (std::size_t j = 0; j < count; ++j) {
      std::size_t rest = j / batch;
      for (auto const& [letter, length] : lengths) index[letter] = rest % length, rest /= length;
      auto const element = [&](int side, value const& of) {
        std::size_t at = index[letters[side][of.row_place]] * batch + j % batch;
        for (std::size_t d = 0; d < letters[side].size(); ++d)
          if (d != of.row_place) at = at * dimensions[side][d] + index[letters[side][d]];
        return at;
      };
      out.elements[element(2, out)] += a.elements[element(0, a)] * b.elements[element(1, b)];
    }
    return out;
  }
  value softmax(value x, bool is_causal) const {
    std::size_t const last = x.last(), rows_of_position = x.elements.size() / last / positions;
    for (std::size_t row = 0; row < x.elements.size() / last; ++row) {
      double sum = 0;
      for (std::size_t k = row * last; k < (row + 1) * last; ++k) {
        bool const is_later = is_causal && k - row * last > row / rows_of_position;
        sum += x.elements[k] = is_later ? 0 : std::exp(x.elements[k]);
      }
      for (std::size_t k = row * last; k < (row + 1) * last; ++k) x.elements[k] /= sum;
    }
    return x;
  }
  value log_sum_exp(value x) const {
    for (double& each : x.elements) each = std::exp(each);
    value out = reduce(x, false);
    for (double& each : out.elements) each = std::log(each);
    return out;
  }
  value max(value const& x) const {
    value out = reduce(x, false);
    for (std::size_t k = 0; k < x.elements.size(); ++k) {
      double& made = out.elements[k / x.last()];
      made = k % x.last() == 0 ? x.elements[k] : std::max(made, x.elements[k]);
    }
    return out;
  }
  value pick(value const& x, value const& ids) const {
    value out = reduce(x, false);
    for (std::size_t row = 0; row < out.elements.size(); ++row)
      out.elements[row] = x.elements[row * x.width() + std::size_t(ids.elements[row])];
    return out;
  }
  value shift(value const& x, int steps) const {
    value out = x;
    std::size_t const distance = std::size_t(steps) * batch * x.width();
    for (std::size_t k = 0; k < x.elements.size(); ++k)
      out.elements[k] = k < distance ? 0 : x.elements[k - distance];
    return out;
  }
  value scan(value const& a, value const& x) const {
    value out = x;
    std::size_t const step = batch * x.width();
    // The decay may be a number of each row, or a number for all, which is repeated.
    for (std::size_t k = step; k < x.elements.size(); ++k)
      out.elements[k] +=
          a.elements[k * a.elements.size() / x.elements.size()] * out.elements[k - step];
    return out;
  }
  /// Value s of row t is the number of position s.
  value across(value const& v) const {
    value out = v;
    if (out.factors.empty()) out.factors = {1};
    out.factors.back() = positions;
    out.row_place = out.factors.size() - 1;
    out.make();
    std::size_t element = 0;
    for (std::size_t t = 0; t < positions; ++t)
      for (std::size_t sample = 0; sample < batch; ++sample)
        for (std::size_t h = 0; h < v.width(); ++h)
          for (std::size_t s = 0; s < positions; ++s)
            out.elements[element++] = v.elements[(s * batch + sample) * v.width() + h];
    return out;
  }
  value norm(value const& x, value const& gamma, value const* beta) const {
    value out = x;
    std::size_t const width = x.last();
    for (std::size_t begin = 0; begin < x.elements.size(); begin += width) {
      double mean = 0, variance = 0;
      for (std::size_t c = 0; beta != nullptr && c < width; ++c)
        mean += x.elements[begin + c] / double(width);
      for (std::size_t c = 0; c < width; ++c)
        variance += (x.elements[begin + c] - mean) * (x.elements[begin + c] - mean) / double(width);
      for (std::size_t c = 0; c < width; ++c)
        out.elements[begin + c] = gamma.elements[c] * (x.elements[begin + c] - mean) /
                                      std::sqrt(variance + node_maker::epsilon) +
                                  (beta == nullptr ? 0 : beta->elements[c]);
    }
    return out;
  }
  /// Causal attention by contractions.
  value attention(value q, value k, value v, std::size_t heads, std::size_t key_heads) const {
    std::size_t const width = q.width() / heads, shared = heads / key_heads;
    auto const repeat = [&](value const& x) {
      value out = reshape(q, {heads, width});
      for (std::size_t i = 0; i < out.elements.size(); ++i)
        out.elements[i] = x.elements[i / (heads * width) * x.width() +
                                     i % (heads * width) / width / shared * width + i % width];
      return out;
    };
    value const keys = repeat(k), values = repeat(v);
    q = reshape(std::move(q), {heads, width});
    for (double& each : q.elements) each /= std::sqrt(double(width));
    value const shares = softmax(contract("thd,shd->hts", q, keys), true);
    return reshape(contract("hts,shd->thd", shares, values), {heads * width});
  }
  /// Returns an image whose element at `row` and `column` of map `channel` of `sample` is f(sample,
  /// channel, row, column).
  static value make_image(value const& x, formula::image_shape const& image, auto f) {
    value out{.is_per_row = true, .rows = x.rows, .image = image};
    out.factors = {std::size_t(image.size())};
    for (std::size_t sample = 0; sample < x.rows; ++sample)
      for (int channel = 0; channel < image.channels; ++channel)
        for (int row = 0; row < image.height; ++row)
          for (int column = 0; column < image.width; ++column)
            out.elements.push_back(f(sample, channel, row, column));
    return out;
  }
  /// Calls use(row of the window, column of it, element) for the elements of a window.
  static void window(value const& x, formula::window_numbers const& by, std::size_t sample,
                     int channel, int row, int column, auto use) {
    for (int i = 0; i < by.kernel; ++i)
      for (int k = 0; k < by.kernel; ++k) {
        int const in_row = row * by.stride - by.padding + i;
        int const in_column = column * by.stride - by.padding + k;
        bool const is_inside =
            in_row >= 0 && in_column >= 0 && in_row < x.image.height && in_column < x.image.width;
        std::size_t const map = sample * std::size_t(x.image.channels) + std::size_t(channel);
        std::size_t const at =
            (map * std::size_t(x.image.height) + std::size_t(in_row)) * std::size_t(x.image.width) +
            std::size_t(in_column);
        if (is_inside) use(std::size_t(i * by.kernel + k), x.elements[at]);
      }
  }
  static formula::image_shape image_after(value const& x, formula::window_numbers const& by,
                                          int channels) {
    auto const side = [&](int length) {
      int count = 0;
      for (int first = -by.padding; first + by.kernel <= length + by.padding; first += by.stride)
        ++count;
      return count;
    };
    return {channels, side(x.image.height), side(x.image.width)};
  }
  value convolve(value const& x, value const& w, value const* b,
                 formula::window_numbers const& by) const {
    int const outputs = int(w.rows), inputs = x.image.channels / by.groups;
    return make_image(
        x, image_after(x, by, outputs), [&](std::size_t sample, int output, int row, int column) {
          double sum = b == nullptr ? 0 : b->elements[std::size_t(output)];
          int const group = output * by.groups / outputs;
          std::size_t at = std::size_t(output) * w.width();
          for (int c = group * inputs; c < (group + 1) * inputs; ++c) {
            window(x, by, sample, c, row, column,
                   [&](std::size_t k, double each) { sum += w.elements[at + k] * each; });
            at += std::size_t(by.kernel * by.kernel);
          }
          return sum;
        });
  }
  value pool(value const& x, formula::window_numbers const& by, bool is_maximum) const {
    return make_image(x, image_after(x, by, x.image.channels),
                      [&](std::size_t sample, int channel, int row, int column) {
                        double sum = 0, largest = -std::numeric_limits<double>::infinity();
                        window(x, by, sample, channel, row, column, [&](std::size_t, double each) {
                          sum += each, largest = std::max(largest, each);
                        });
                        return is_maximum ? largest : sum / (by.kernel * by.kernel);
                      });
  }
  value gather(value const& ids, value const& of) const {
    value out{.is_per_row = true, .rows = ids.rows, .factors = of.factors};
    out.make();
    for (std::size_t k = 0; k < out.elements.size(); ++k)
      out.elements[k] =
          of.elements[std::size_t(ids.elements[k / of.width()]) * of.width() + k % of.width()];
    return out;
  }
};

/// Evaluates the terms of a formula, each once.
class expression_evaluator : private expression_words {
 public:
  explicit expression_evaluator(std::size_t sequence) { positions = sequence > 0 ? sequence : 6; }

  template <class Term>
  void give(std::size_t rows, std::vector<std::size_t> factors, numbers const& elements,
            formula::image_shape const& image) {
    bool const is_per_row = rows == 0;
    values_[&key<Term>] = {
        is_per_row, is_per_row ? batch * positions : rows, std::move(factors), 0, elements, image};
  }
  template <class Leaf>
  value const& of(Leaf) {
    return values_.at(&key<Leaf>);
  }
  template <long long Numerator, long long Denominator>
  value const& of(formula::number<Numerator, Denominator> number) {
    return values_[&key<decltype(number)>] = {.elements = {number.value}};
  }
  template <class Operation, class... Operands>
  value const& of(formula::term<Operation, Operands...> term) {
    auto const found = values_.find(&key<decltype(term)>);
    if (found != values_.end()) return found->second;
    return values_[&key<decltype(term)>] = made(term);
  }

 private:
  template <class Term>
  static constexpr char key = 0;

  template <class Function>
  value made(formula::term<formula::op::at<Function>>) {
    return {};
  }
  template <class Function, class... X>
  value made(formula::term<formula::op::map<Function>, X...>) {
    std::vector<value const*> operands;
    (operands.push_back(&of(X{})), ...);
    return map(
        [](formula::index_place const& place, double const* given) -> double {
          return [&]<std::size_t... K>(std::index_sequence<K...>) {
            return Function{}(argument(X{}, place, given[K])...);
          }(std::index_sequence_for<X...>{});
        },
        without_places(operands));
  }
  template <class X>
  static double argument(X, formula::index_place const&, double given) {
    return given;
  }
  template <class Function>
  static double argument(formula::term<formula::op::at<Function>>,
                         formula::index_place const& place, double) {
    return Function{}(place);
  }
  /// Removes functions of places, which have no elements.
  std::vector<value const*> without_places(std::vector<value const*> operands) {
    for (value const*& each : operands)
      if (each->elements.empty()) each = &zero_;
    return operands;
  }
  template <bool IsTransposed, class X, class W>
  value made(formula::term<formula::op::matmul<IsTransposed>, X, W>) {
    return matmul(of(X{}), of(W{}), IsTransposed);
  }
  template <bool IsMean, class X>
  value made(formula::term<formula::op::reduce<IsMean>, X>) {
    return reduce(of(X{}), IsMean);
  }
  template <int Count, class X>
  value made(formula::term<formula::op::heads<Count>, X>) {
    value const& x = of(X{});
    return reshape(x, {Count, x.width() / Count});
  }
  template <class X>
  value made(formula::term<formula::op::side_by_side, X>) {
    value const& x = of(X{});
    return reshape(x, {x.width()});
  }
  template <int Number, int Count, class X>
  value made(formula::term<formula::op::part<Number, Count>, X>) {
    return part(of(X{}), Number, Count);
  }
  template <class... X>
  value made(formula::term<formula::op::concat, X...>) {
    return concat({&of(X{})...});
  }
  template <formula::contraction_letters Letters, class A, class B>
  value made(formula::term<formula::op::contract<Letters>, A, B>) {
    return contract(Letters.text.text(), of(A{}), of(B{}));
  }
  template <bool IsCausal, class X>
  value made(formula::term<formula::op::softmax<IsCausal>, X>) {
    return softmax(of(X{}), IsCausal);
  }
  /// The rows of the term follow the rows of the output.
  template <class Y, class Loss>
  value made(formula::term<formula::op::with_loss, Y, Loss>) {
    value out = of(Y{});
    numbers const& term = of(Loss{}).elements;
    out.elements.insert(out.elements.end(), term.begin(), term.end());
    return out;
  }
  template <class X>
  value made(formula::term<formula::op::log_sum_exp, X>) {
    return log_sum_exp(of(X{}));
  }
  template <class X>
  value made(formula::term<formula::op::maximum, X>) {
    return max(of(X{}));
  }
  template <class X, class Ids>
  value made(formula::term<formula::op::pick, X, Ids>) {
    return pick(of(X{}), of(Ids{}));
  }
  template <int Steps, class X>
  value made(formula::term<formula::op::shift<Steps>, X>) {
    return shift(of(X{}), Steps);
  }
  template <class A, class X>
  value made(formula::term<formula::op::scan, A, X>) {
    return scan(of(A{}), of(X{}));
  }
  template <class V>
  value made(formula::term<formula::op::across, V>) {
    return across(of(V{}));
  }
  template <std::size_t Heads, std::size_t KeyHeads, plait::ext::attention_options Options, class Q,
            class K, class V>
  value made(formula::term<formula::op::attention<Heads, KeyHeads, Options>, Q, K, V>) {
    return attention(of(Q{}), of(K{}), of(V{}), Heads, KeyHeads);
  }
  template <class Epsilon, class X, class Gamma>
  value made(formula::term<formula::op::call<plait::operation::rms_norm, Epsilon>, X, Gamma>) {
    return norm(of(X{}), of(Gamma{}), nullptr);
  }
  template <class Epsilon, class X, class Gamma, class Beta>
  value made(
      formula::term<formula::op::call<plait::operation::layer_norm, Epsilon>, X, Gamma, Beta>) {
    return norm(of(X{}), of(Gamma{}), &of(Beta{}));
  }
  template <std::size_t Channels, std::size_t Height, std::size_t Width, class X>
  value made(formula::term<formula::op::as_image<Channels, Height, Width>, X>) {
    value out = of(X{});
    out.image = {int(Channels), int(Height), int(Width)};
    return out;
  }
  template <formula::convolution_options Options, class X, class W, class... B>
  value made(formula::term<formula::op::convolve<Options>, X, W, B...>) {
    value const* bias = nullptr;
    ((bias = &of(B{})), ...);
    return convolve(
        of(X{}), of(W{}), bias,
        {int(Options.kernel), int(Options.stride), int(Options.padding), int(Options.groups)});
  }
  template <class Row, formula::pool_options Options, class X>
  value made(formula::term<formula::op::pool<Row, Options>, X>) {
    std::size_t const stride = Options.stride == 0 ? Options.kernel : Options.stride;
    return pool(of(X{}), {int(Options.kernel), int(stride), int(Options.padding)},
                std::is_same_v<Row, plait::operation::max_pool>);
  }
  template <class Ids, class Table>
  value made(formula::term<formula::op::call<plait::operation::gather_rows>, Ids, Table>) {
    return gather(of(Ids{}), of(Table{}));
  }

  std::map<void const*, value> values_;
  value zero_{.elements = {0}};
};

/// Returns the output of the formula of L.
template <class L>
numbers output_by_definition(given_numbers const& given) {
  using facts = formula::formula_facts<L>;
  expression_evaluator evaluator{std::size_t(facts::table.sequence)};
  auto const factors = [](int value) {
    std::size_t const columns = std::size_t(facts::table.at[value].width());
    return columns == 1 ? std::vector<std::size_t>{} : std::vector<std::size_t>{columns};
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (evaluator.give<formula::input_value<int(I)>>(0, factors(facts::table.inputs[I]),
                                                  given.inputs[I],
                                                  facts::table.at[facts::table.inputs[I]].image),
     ...);
  }(std::make_index_sequence<std::size_t(facts::table.input_count)>{});
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    (evaluator.give<typename facts::template parameter_at<int(K)>>(
         std::size_t(facts::table.at[facts::table.parameters[K]].rows.extent),
         factors(facts::table.parameters[K]), given.parameters[K], formula::image_shape{}),
     ...);
  }(std::make_index_sequence<std::size_t(facts::parameter_count)>{});
  return evaluator.of(typename facts::terms::expression{}).elements;
}

// ---- Formulas as the tests take them ------------------------------------------------------------

/// A formula without its type, with its definition.
struct tested_formula : tried_formula {
  numbers (*by_definition)(given_numbers const&) = nullptr;
  std::vector<plait::ext::name> labels{};  ///< the names of the parameters
};

template <class L>
tested_formula tested() {
  using facts = formula::formula_facts<L>;
  static_assert(!facts::table.has_failed(), "the formula has a mistake");
  return [&]<std::size_t... K>(std::index_sequence<K...>) {
    return tested_formula{as_tried<facts>(),
                          &output_by_definition<L>,
                          {facts::template parameter_at<int(K)>::label...}};
  }(std::make_index_sequence<std::size_t(facts::parameter_count)>{});
}

/// Returns the largest distance of the output from its definition.
inline double distance_from_definition(tested_formula const& of) {
  auto const given = of.given();
  numbers const expected = of.by_definition(given), got = of.run(given).y;
  double out = expected.size() == got.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < std::min(got.size(), expected.size()); ++k)
    out = worse(out, std::abs(got[k] - expected[k]) / (1 + std::abs(expected[k])));
  return out;
}

/// Returns the largest distance of a gradient from the central differences of the definition.
inline double distance_from_differences(tested_formula const& of) {
  auto given = of.given();
  auto const whole = of.run(given);
  auto const loss = [&] {
    numbers const y = of.by_definition(given);
    double sum = 0;
    for (std::size_t k = 0; k < y.size(); ++k)
      sum += y[k] * (k < given.dy.size() ? given.dy[k] : given.term_seed[k - given.dy.size()]);
    return sum;
  };
  double worst = 0;
  auto const compare = [&](numbers& x, numbers const& gradient) {
    constexpr double step = 1e-5;
    // The step avoids the diagonal of a matrix, which its transpose shares.
    for (std::size_t k = 0; k < x.size(); k += x.size() / 17 + 1) {
      double const kept = std::exchange(x[k], x[k] + step);
      double const above = loss();
      x[k] = kept - step;
      double const slope = (above - loss()) / (2 * step);
      x[k] = kept;
      worst = worse(worst, std::abs(slope - gradient[k]) / (1 + std::abs(slope)));
    }
  };
  for (int k = 0; k < of.g.input_count; ++k)
    if (!of.g.at[of.g.inputs[k]].is_data)
      compare(given.inputs[std::size_t(k)], whole.dx[std::size_t(k)]);
  for (int k = 0; k < of.g.parameter_count; ++k)
    compare(given.parameters[std::size_t(k)], whole.dp[std::size_t(k)]);
  return worst;
}

/// The result of the trial of all cuts of a formula.
struct form_trial {
  int forms = 0, refusals = 0;
  double worst = 0;           ///< the largest distance of a form from the whole
  int needless_refusals = 0;  ///< the number of refused forms whose numbers are right
};
inline form_trial try_forms(tested_formula const& of) {
  form_trial out;
  for (auto const& cut : try_cuts(of)) {
    ++(cut.is_listed ? out.forms : out.refusals);
    out.worst = worse(out.worst, cut.distance);
    out.needless_refusals += cut.is_missing() ? 1 : 0;
  }
  return out;
}

}  // namespace formula_testing
