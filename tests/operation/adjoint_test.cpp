// SPDX-License-Identifier: Apache-2.0
// The rows that are declared as adjoints of others: their operands are bound by name to operands of
// the forward, and their results are compared with differences of the forward.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operation/host_rows.hpp"
#include "plait/operation/row.hpp"
#include "plait/operation/rows.hpp"

namespace {

namespace operation = plait::operation;
using host_rows::matrix;
using host_rows::pieces;

/// The shapes of a forward, whose numbers are random.
struct forward_shapes {
  std::map<char, std::size_t> lengths;
  std::vector<std::pair<std::size_t, std::size_t>> widths =
      {};  ///< rows and columns of a unit; (1, 1) if none
  std::size_t ids_below = 0;
};

/// A forward with its results and the gradients of these.
template <class Row>
class adjoint_check {
 public:
  explicit adjoint_check(forward_shapes const& shapes) {
    for (auto const& [letter, length] : shapes.lengths)
      for (std::size_t u = 0; u < length; ++u) in_.of[letter].push_back(u);
    for (std::size_t i = 0; i < count; ++i) {
      auto const& of = operation::indices_of<Row>.operands[i];
      auto const [rows, columns] =
          shapes.widths.empty() ? std::pair<std::size_t, std::size_t>{1, 1} : shapes.widths[i];
      auto const extent = [&](operation::dimension along, std::size_t width) {
        std::size_t const length = along.index == '1' ? 1 : shapes.lengths.at(along.index);
        return static_cast<std::size_t>(along.parts) * length * width;
      };
      matrix m(extent(of.rows, rows), extent(of.columns, columns));
      gradients_.push_back(m);
      if (!of.is_written) fill(m);
      if (host_rows::name_of(Row::is, static_cast<int>(i)) == "ids")
        for (double& value : m.values)
          value = std::floor(std::abs(value) / 1.5 * static_cast<double>(shapes.ids_below));
      in_.operands.push_back(m);
    }
    out_ = in_;
    host_rows::run<Row>(out_);
  }

  /// Returns what is wrong with the adjoints of the row; nothing if they are right.
  template <class... Adjoints>
  std::string wrong_with(operation::adjoints_of<Adjoints...>) {
    (give_cotangents<Adjoints>(), ...);
    (run<Adjoints>(), ...);
    for (std::size_t i = 0; i < count && wrong_.empty(); ++i) {
      auto const& of = operation::indices_of<Row>.operands[i];
      bool const has_gradient = !of.is_written && !of.is_constant;
      if (made_[i].size() != (has_gradient ? 1u : 0u))
        say(i, " is written " + std::to_string(made_[i].size()) + " times");
      else if (has_gradient) compare(i);
    }
    return wrong_;
  }

 private:
  static constexpr auto count = static_cast<std::size_t>(operation::indices_of<Row>.count);

  struct binding {
    int operand = -1;
    bool is_gradient = false;
  };
  static constexpr binding bind(std::string_view name) {
    int const value = host_rows::number_of(Row::is, name);
    if (value >= 0 || name.front() != 'd') return {value};
    return {host_rows::number_of(Row::is, name.substr(1)), true};
  }

  /// Gradients that an adjoint reads are random, gradients of other results zero.
  template <class Adjoint>
  void give_cotangents() {
    for (int i = 0; i < operation::indices_of<Adjoint>.count; ++i) {
      auto const name = host_rows::name_of(Adjoint::is, i);
      auto const to = bind(name);
      bool const is_result = to.operand >= 0 &&
                             operation::indices_of<Row>.operands[to.operand].is_written &&
                             to.is_gradient;
      if (to.operand < 0) wrong_ = std::string(name) + " is no operand of " + Row::is.name;
      else if (operation::indices_of<Adjoint>.operands[i].is_written &&
               (is_result || !to.is_gradient))
        wrong_ = std::string(name) + " is no gradient that an adjoint makes";
      else if (is_result && !is_given_[to.operand]) {
        is_given_[to.operand] = true;
        fill(gradients_[std::size_t(to.operand)]);
      }
    }
  }
  template <class Adjoint>
  void run() {
    if (!wrong_.empty()) return;
    pieces backward{{}, in_.of};
    for (int i = 0; i < operation::indices_of<Adjoint>.count; ++i) {
      auto const to = bind(host_rows::name_of(Adjoint::is, i));
      auto const k = static_cast<std::size_t>(to.operand);
      backward.operands.push_back(to.is_gradient ? gradients_[k] : out_.operands[k]);
      if (operation::indices_of<Adjoint>.operands[i].is_written)
        std::ranges::fill(backward.operands.back().values, held_before);
    }
    host_rows::run<Adjoint>(backward);
    for (int i = 0; i < operation::indices_of<Adjoint>.count; ++i) {
      if (!operation::indices_of<Adjoint>.operands[i].is_written) continue;
      matrix made = backward.operands[std::size_t(i)];
      for (double& value : made.values)
        value -= operation::indices_of<Adjoint>.operands[i].is_added_to ? held_before : 0.0;
      made_[std::size_t(bind(host_rows::name_of(Adjoint::is, i)).operand)].push_back(made);
    }
  }

  /// Compares the gradient with respect to an operand with finite differences.
  void compare(std::size_t i) {
    pieces moved = in_;
    matrix const& made = made_[i].front();
    double worst = 0, largest = 0;
    for (std::size_t e = 0; e < made.values.size(); ++e) {
      constexpr double step = 1e-5;
      double const here = in_.operands[i].values[e];
      moved.operands[i].values[e] = here + step;
      double const above = seen(moved);
      moved.operands[i].values[e] = here - step;
      double const expected = (above - seen(moved)) / (2 * step);
      moved.operands[i].values[e] = here;
      worst = std::max(worst, std::abs(made.values[e] - expected));
      largest = std::max(largest, std::abs(expected));
    }
    if (largest == 0) say(i, " has no gradient");
    if (!(worst <= 1e-6 * largest)) say(i, " is wrong by " + std::to_string(worst));
  }
  double seen(pieces const& at) const {
    pieces run_on = at;
    host_rows::run<Row>(run_on);
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t e = 0;
           operation::indices_of<Row>.operands[i].is_written && e < gradients_[i].values.size();
           ++e)
        sum += gradients_[i].values[e] * run_on.operands[i].values[e];
    return sum;
  }
  void say(std::size_t i, std::string const& what) {
    wrong_ = "d" + std::string(host_rows::name_of(Row::is, static_cast<int>(i))) + what;
  }
  void fill(matrix& m) {
    for (double& value : m.values) value = number_(random_);
  }

  static constexpr double held_before = 3.25;

  std::mt19937 random_{11};
  std::uniform_real_distribution<double> number_{-1.5, 1.5};
  pieces in_, out_;
  std::vector<matrix> gradients_;
  std::vector<matrix> made_[count];
  bool is_given_[count] = {};
  std::string wrong_;
};

template <class Row, class Adjoints = typename Row::adjoints>
void expect_adjoints(forward_shapes const& of) {
  EXPECT_EQ(adjoint_check<Row>(of).wrong_with(Adjoints{}), "") << Row::is.name;
}

TEST(Adjoints, AreTheGradientsOfTheirForwards) {
  using namespace host_rows;
  expect_adjoints<operation::layer_norm>({{{'r', 3}, {'c', 5}}});
  expect_adjoints<operation::rms_norm>({{{'r', 3}, {'c', 5}}});
  expect_adjoints<operation::l2_normalise>({{{'r', 3}, {'c', 5}}});
  expect_adjoints<operation::gather_rows>({{{'r', 5}, {'v', 4}, {'c', 3}}, {}, 4});
  expect_adjoints<operation::attention_side_by_side>(
      {{{'r', 4}, {'h', 2}}, {{1, head}, {1, head}, {1, 1}}});
  // Two heads of queries read one head of key and value.
  expect_adjoints<operation::attention>(
      {{{'r', 4}, {'s', 4}, {'h', 2}},
       {{1, 2 * head}, {1, head}, {1, head}, {1, 2 * head}, {1, 2}}});
  expect_adjoints<operation::convolve>(
      {{{'r', 3}, {'i', 2}, {'o', 5}}, {{1, wide}, {1, taps}, {1, narrow}}});
  // Two groups of two channels.
  expect_adjoints<operation::convolve>(
      {{{'r', 3}, {'i', 2}, {'o', 4}}, {{1, 2 * wide}, {1, taps}, {1, narrow}}});
  expect_adjoints<operation::add_to_maps>({{{'r', 3}, {'c', 2}}, {{1, 1}, {1, host_rows::map}}});
  expect_adjoints<operation::max_pool>({{{'r', 3}, {'c', 2}}, {{1, pooled}, {1, pools}}});
  expect_adjoints<operation::average_pool>({{{'r', 3}, {'c', 2}}, {{1, pooled}, {1, pools}}});
}

TEST(Adjoints, MayBeOneRowOrThoseOfSeveralRows) {
  using namespace host_rows;
  using operation::adjoints_of;
  expect_adjoints<operation::layer_norm, adjoints_of<operation::layer_norm_backward>>(
      {{{'r', 3}, {'c', 5}}});
  // With statistics of x, as the gradient with respect to x assumes.
  expect_adjoints<operation::normalize_sets, adjoints_of<operation::normalize_sets_backward,
                                                         operation::normalize_sets_parameters>>(
      {{{'r', 3}, {'c', 2}, {'s', 1}},
       {{1, together * host_rows::map},
        {1, 1},
        {1, together},
        {1, together},
        {1, together * host_rows::map}}});
}

// ---- Adjoints that are wrong --------------------------------------------------------------------

/// The kernel of rms_norm_backward_input, whose first two operands are said to be each other.
struct rms_norm_backward_exchanged {
  using kernel = operation::rms_norm_backward_input;
  static constexpr operation::row is{
      "rms_norm_backward_exchanged",
      "x(r c), dy(r c), #inverse(r 1), gamma(1 c) -> dx(r c); whole c; linear first"};
};
/// A kernel that adds, which is said to write.
struct rms_norm_backward_written {
  using kernel = operation::rms_norm_backward_parameters;
  static constexpr operation::row is{"rms_norm_backward_written",
                                     "dy(r c), x(r c), #inverse(r 1) -> dgamma(1 c); linear first"};
};
struct of_another_name {
  using kernel = operation::rms_norm_backward_parameters;
  static constexpr operation::row is{
      "of_another_name", "dz(r c), x(r c), #inverse(r 1) -> +dgamma(1 c); linear first"};
};
struct constant_gamma {
  using kernel = operation::rms_norm;
  static constexpr operation::row is{"constant_gamma",
                                     "x(r c), #gamma(1 c) -> y(r c), inverse(r 1); whole c"};
};

template <class Forward, class... Rows>
std::string planted_adjoints() {
  return adjoint_check<Forward>({{{'r', 3}, {'c', 5}}})
      .wrong_with(operation::adjoints_of<Rows...>{});
}

TEST(Adjoints, ThatAreWrongAreFound) {
  using operation::rms_norm, operation::rms_norm_backward_input,
      operation::rms_norm_backward_parameters;
  EXPECT_EQ((planted_adjoints<rms_norm, rms_norm_backward_input, rms_norm_backward_parameters>()),
            "");
  EXPECT_EQ(
      (planted_adjoints<rms_norm, rms_norm_backward_exchanged, rms_norm_backward_parameters>())
          .substr(0, 14),
      "dx is wrong by");
  EXPECT_EQ((planted_adjoints<rms_norm, rms_norm_backward_input, rms_norm_backward_written>())
                .substr(0, 18),
            "dgamma is wrong by");
  EXPECT_EQ((planted_adjoints<rms_norm, rms_norm_backward_input>()), "dgamma is written 0 times");
  EXPECT_EQ((planted_adjoints<rms_norm, rms_norm_backward_input, rms_norm_backward_parameters,
                              rms_norm_backward_parameters>()),
            "dgamma is written 2 times");
  EXPECT_EQ((planted_adjoints<rms_norm, rms_norm_backward_input, of_another_name>()),
            "dz is no operand of rms_norm");
  EXPECT_EQ(
      (planted_adjoints<constant_gamma, rms_norm_backward_input, rms_norm_backward_parameters>()),
      "dgamma is written 1 times");
}

}  // namespace
