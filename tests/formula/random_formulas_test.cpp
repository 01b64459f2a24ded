// SPDX-License-Identifier: Apache-2.0
// Random formulas: compares the table with the definitions of the operations, the gradients with
// finite differences, every form with the whole, and every refusal with numbers.
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formula/expression.hpp"
#include "formula/layers.hpp"
#include "formula/slots.hpp"
#include "plait/formula/layer.hpp"

using namespace formula_testing;
using namespace plait::literals;

/// The number of formulas. Every third has two inputs, every fourth has positions.
constexpr int formula_count = 40;
constexpr std::size_t width = 12, head_count = 6;

constexpr unsigned next(unsigned state) { return state * 1664525u + 1013904223u; }
constexpr unsigned choose(unsigned state, unsigned count) { return (state >> 12) % count; }

/// The values that a formula has so far.
template <class... Values>
struct value_list {
  template <std::size_t Index>
  using at = plait::detail::type_at<std::tuple<Values...>, Index>;
  template <class T>
  using with = value_list<Values..., T>;
  static constexpr std::size_t count = sizeof...(Values);
};

template <bool HasPositions>
struct positions_of_formula {};
template <>
struct positions_of_formula<true> {
  static constexpr std::size_t sequence = 6;
};

/// A formula of a seed. With `Mirrored`, operands that may be swapped are swapped.
template <int Number, bool Mirrored = false>
struct random_formula : positions_of_formula<Number % 4 == 3> {
  static constexpr weights<"a", width, width> a{};
  static constexpr weights<"b", width, width> b{};
  static constexpr weights<"c", width, width> c{};
  static constexpr weights<"gamma", width> gamma{};
  static constexpr weights<"beta", width> beta{};
  static constexpr weights<"of_head", width / head_count> of_head{};

  static constexpr bool has_two = Number % 3 == 2;
  using one = plait::features<width>;
  using input = std::conditional_t<has_two, plait::inputs<one, one>, one>;

  static constexpr auto formula(auto x) {
    return grow<2 + Number % 7, seed>(value_list<decltype(x)>{});
  }
  static constexpr auto formula(auto x, auto y) {
    auto const both = add(tanh(x), y);
    return add(grow<2 + Number % 5, seed>(value_list<decltype(x), decltype(both)>{}), both);
  }

 private:
  static constexpr unsigned seed = next(next(2026u + 7919u * unsigned(Number)));

  static constexpr auto add(auto left, auto right) {
    if constexpr (Mirrored) return right + left;
    else return left + right;
  }
  static constexpr auto multiply(auto left, auto right) {
    if constexpr (Mirrored) return right * left;
    else return left * right;
  }
  template <unsigned Choice>
  static constexpr auto matrix() {
    if constexpr (Choice == 0) return a;
    else if constexpr (Choice == 1) return b;
    else return c;
  }
  /// Returns the latest value most often, so that formulas are deep; else any value.
  static constexpr std::size_t place_of_operand(unsigned state, std::size_t count) {
    return choose(state, 3) != 0 ? count - 1 : choose(next(state), unsigned(count));
  }
  template <unsigned State, class List>
  using operand = typename List::template at<place_of_operand(State, List::count)>;

  template <int Steps, unsigned State, class List>
  static constexpr auto grow(List) {
    if constexpr (Steps == 0) {
      return typename List::template at<List::count - 1>{};
    } else {
      constexpr unsigned of_x = next(State), of_y = next(next(of_x)), then = next(next(of_y));
      using made = decltype(step<State>(operand<of_x, List>{}, operand<of_y + 77, List>{}));
      return grow<Steps - 1, then>(typename List::template with<made>{});
    }
  }
  template <unsigned State>
  static constexpr auto step(auto x, auto y) {
    constexpr unsigned kinds = Number % 4 == 3 ? 28 : 24;
    constexpr unsigned kind = choose(State, kinds), which = choose(next(State + 5), 3);
    if constexpr (kind < 3) return matmul(x, matrix<which>());
    else if constexpr (kind == 3) return add(matmul(x, matrix<which>()), beta);
    else if constexpr (kind == 4) return matmul(x, transposed(matrix<which>()));
    else if constexpr (kind < 7) return add(x, y);
    else if constexpr (kind == 7) return x - y * 0.5_c;  // with x == y, x - y would be 0
    else if constexpr (kind == 8) return multiply(x, y);
    else if constexpr (kind == 9) return x / add(2_c, square(y));
    else if constexpr (kind == 10) return tanh(x);
    else if constexpr (kind == 11) return silu(x);
    else if constexpr (kind == 12) return multiply(sigmoid(x), y);
    else if constexpr (kind == 13) return multiply(gamma, x);
    else if constexpr (kind == 14) return add(x, beta);
    else if constexpr (kind == 15) return x - mean(y);
    else if constexpr (kind == 16) return multiply(x, sum(y)) * 0.25_c;
    else if constexpr (kind == 17) return rms_norm(x, gamma);
    else if constexpr (kind == 18) return layer_norm(x, gamma, beta);
    else if constexpr (kind == 19) return map(clipped_softly{}, x, add(2_c, square(gamma)));
    else if constexpr (kind == 20) return concat(part<1, 2>(x), part<0, 2>(y));
    else if constexpr (kind == 22) return multiply(softmax(x), y);
    else if constexpr (kind == 24) return shift<1>(x);
    else if constexpr (kind == 25) return scan(sigmoid(x), y);
    else if constexpr (kind == 27) return attention<head_count>(x, y, x);
    else return side_by_side(step_of_heads<kind>(heads<head_count>(x), heads<head_count>(y)));
  }
  template <unsigned Kind>
  static constexpr auto step_of_heads(auto x, auto y) {
    if constexpr (Kind == 21) return x * of_head / add(1_c, square(mean(y)));
    else if constexpr (Kind == 23) return rms_norm(x, of_head);
    else return einsum<"hts,shd->thd">(causal_softmax(einsum<"thd,shd->hts">(x, y) * 0.5_c), y);
  }
};

template <bool Mirrored>
std::vector<tested_formula> all_formulas() {
  return []<int... Number>(std::integer_sequence<int, Number...>) {
    return std::vector<tested_formula>{tested<random_formula<Number, Mirrored>>()...};
  }(std::make_integer_sequence<int, formula_count>{});
}
std::vector<tested_formula> const& formulas() {
  static auto const all = all_formulas<false>();
  return all;
}

TEST(RandomFormulas, AreTheirDefinitions) {
  for (int number = 0; number < formula_count; ++number)
    EXPECT_LT(distance_from_definition(formulas()[std::size_t(number)]), 1e-13) << number;
}

TEST(RandomFormulas, GradientsAreFiniteDifferences) {
  for (int number = 0; number < formula_count; ++number)
    EXPECT_LT(distance_from_differences(formulas()[std::size_t(number)]), 1e-7) << number;
}

TEST(RandomFormulas, EveryFormIsRightAndEveryRefusalIsNeeded) {
  int forms = 0, refusals = 0;
  for (int number = 0; number < formula_count; ++number) {
    auto const found = try_forms(formulas()[std::size_t(number)]);
    EXPECT_LT(found.worst, 1e-12) << number;
    EXPECT_EQ(found.needless_refusals, 0) << number;
    forms += found.forms, refusals += found.refusals;
  }
  // Two forms of each formula are whole and by positions.
  EXPECT_GT(forms, 2 * formula_count + 10);
  EXPECT_GT(refusals, 10);
}

TEST(RandomFormulas, SlotsHoldWhatIsReadOfThem) {
  for (int number = 0; number < formula_count; ++number) {
    auto const& each = formulas()[std::size_t(number)];
    EXPECT_LT(distance_in_slots(each, plan_of(each)), 1e-13) << number;
  }
}

TEST(RandomFormulas, KeepTheFewestColumns) {
  int with_choice = 0;
  for (int number = 0; number < formula_count; ++number) {
    auto const& each = formulas()[std::size_t(number)];
    auto const plan = plan_of(each);
    EXPECT_EQ(kept_columns(each.g, plan), fewest_columns(each.g, plan).count()) << number;
    for (int i = 0; i < each.g.forward_size; ++i)
      with_choice += plan.is_read_backward[i] && each.g.at[i].kind == node_kind::map ? 1 : 0;
  }
  EXPECT_GT(with_choice, 20);
}

/// Bodies pass the results of a call to a kernel as nodes that follow each other, also if several
/// operands of the call are one value, whose gradients are added.
TEST(RandomFormulas, ResultsOfCallsAreNeighbours) {
  for (int number = 0; number < formula_count; ++number) {
    table const& g = formulas()[std::size_t(number)].g;
    for (int i = 1; i < g.size; ++i) {
      if (g.at[i].kind != node_kind::result) continue;
      EXPECT_TRUE(g.at[i - 1].kind == node_kind::result || g.at[i].operands[0] == i - 1)
          << number << " node " << i;
    }
  }
}

/// The table of a mirrored formula has its nodes, and maybe its parameters, in another order.
TEST(RandomFormulas, AreTheSameInAnotherOrderOfOperands) {
  auto const mirrored = all_formulas<true>();
  for (int number = 0; number < formula_count; ++number) {
    auto const& one = formulas()[std::size_t(number)];
    auto const& other = mirrored[std::size_t(number)];
    ASSERT_EQ(one.labels.size(), other.labels.size()) << number;
    auto const place_of = [&](plait::ext::name label) {
      for (std::size_t k = 0; k < one.labels.size(); ++k)
        if (one.labels[k] == label) return k;
      return one.labels.size();
    };
    auto const given = one.given();
    auto given_to_other = given;
    for (std::size_t k = 0; k < other.labels.size(); ++k)
      given_to_other.parameters[k] = given.parameters.at(place_of(other.labels[k]));
    auto const expected = one.run(given);
    auto got = other.run(given_to_other);
    auto const gradients = got.dp;
    for (std::size_t k = 0; k < other.labels.size(); ++k)
      got.dp[place_of(other.labels[k])] = gradients[k];
    EXPECT_LT(expected.distance_to(got), 1e-13) << number;
    EXPECT_EQ(try_forms(one).forms, try_forms(other).forms) << number;
  }
}

/// The formulas have all kinds of nodes that the generator makes, and values that several nodes
/// read.
TEST(RandomFormulas, AreVaried) {
  std::set<node_kind> kinds;
  int sums_of_gradients = 0, joined = 0, fused = 0;
  std::size_t largest = 0;
  for (auto const& each : formulas()) {
    largest = std::max(largest, std::size_t(each.g.size));
    for (int i = 0; i < each.g.size; ++i) {
      node const& n = each.g.at[i];
      kinds.insert(n.kind);
      sums_of_gradients += n.kind == node_kind::add ? 1 : 0;
      joined += n.kind == node_kind::product && n.count == 3 ? 1 : 0;
      fused += n.is_inlined ? 1 : 0;
    }
  }
  for (node_kind const kind :
       {node_kind::product, node_kind::map, node_kind::slope, node_kind::broadcast,
        node_kind::reduce, node_kind::weight_gradient, node_kind::column_sum, node_kind::reshape,
        node_kind::part, node_kind::concat, node_kind::contract, node_kind::softmax,
        node_kind::shift, node_kind::scan, node_kind::attention, node_kind::call})
    EXPECT_TRUE(kinds.contains(kind)) << int(kind);
  EXPECT_GT(sums_of_gradients, 20);
  EXPECT_GT(joined, 2);
  EXPECT_GT(fused, 10);
  EXPECT_GT(largest, 30u);
}
