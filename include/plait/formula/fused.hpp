// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "plait/backend/arguments.hpp"
#include "plait/backend/element_place.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/macros.hpp"
#include "plait/formula/draws.hpp"
#include "plait/formula/graph.hpp"
#include "plait/tensor/dual_number.hpp"
#include "plait/tensor/functions.hpp"

/// The elementwise functions to which map nodes are lowered. A chain of functions becomes one
/// function, and the derivative of the chain with respect to each operand becomes one function,
/// too. These functions are named types, so that every device can run them.
namespace plait::formula {

/// The hand-written derivative of a function of one number. `type` is a function of two numbers:
/// the operand of the function (or its result, if `from_output` is true) and dy.
template <class Function>
struct derivative_by_hand {
  using type = functions::derivative_of<Function>;
  static constexpr bool exists = requires(float x) { Function{}.slope(x); };
  static constexpr bool from_output = [] {
    if constexpr (requires { Function::from_output; }) return bool{Function::from_output};
    else return false;
  }();
};
template <class Derivative, bool FromOutput>
struct known_derivative {
  using type = Derivative;
  static constexpr bool exists = true, from_output = FromOutput;
};
template <>
struct derivative_by_hand<functions::relu> : known_derivative<functions::relu_derivative, true> {};
template <>
struct derivative_by_hand<functions::gelu_tanh>
    : known_derivative<functions::gelu_tanh_derivative, false> {};
template <>
struct derivative_by_hand<functions::silu> : known_derivative<functions::silu_derivative, false> {};
template <>
struct derivative_by_hand<functions::sigmoid>
    : known_derivative<functions::sigmoid_derivative, true> {};
template <>
struct derivative_by_hand<functions::tanh> : known_derivative<functions::tanh_derivative, true> {};

/// The FLOPs that a function takes for each element.
template <class Function>
inline constexpr int flops_of_function = [] {
  if constexpr (requires { Function::flops; }) return int(Function::flops);
  else return 1;
}();
template <>
inline constexpr int flops_of_function<functions::relu> = 0;
template <>
inline constexpr int flops_of_function<functions::gelu_tanh> = 12;
template <>
inline constexpr int flops_of_function<functions::silu> = 8;
template <>
inline constexpr int flops_of_function<functions::sigmoid> = 8;
template <>
inline constexpr int flops_of_function<functions::tanh> = 12;

/// Calls a function of a formula with numbers, or with numbers and their derivatives (dual
/// numbers).
template <class Function>
struct function_call {
  template <class... T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static auto of(T... values) {
    return Function{}(values...);
  }
  template <class T>
    requires derivative_by_hand<Function>::exists
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static functions::dual_number<T> of(
      functions::dual_number<T> x) {
    using by_hand = derivative_by_hand<Function>;
    T const y = Function{}(x.value);
    T const kept = by_hand::from_output ? y : x.value;
    return {y, typename by_hand::type{}(kept, x.slope)};
  }
};

/// The type of a number, or of the value in a dual number.
template <class T>
struct real_number {
  using type = T;
};
template <class T>
struct real_number<functions::dual_number<T>> {
  using type = T;
};

/// The functions that map `Map` of a formula consists of, as one function. `Facts` is a
/// formula_facts. The results of the inner functions are local variables, so a device reads each
/// operand once and writes one result for each element.
///
/// Example: silu(a) * b is one map of two functions. Its slope with respect to a evaluates both
/// with dual numbers in which a has the slope 1 and b has the slope 0.
template <class Facts, int Map>
struct fused_map {
  static constexpr auto& table = Facts::table;
  static constexpr auto functions = table.functions_of(Map);

  /// Returns the result for the map's operands, in their order. T is a number or a dual number.
  /// `place`: the place of the element, for functions that depend on it. `By`: the operand with
  /// respect to which a slope is computed, or -1. `Given`: a bit mask of the operands that have
  /// values; a slope reads no other operands.
  template <int By = -1, unsigned Given = ~0u, class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static T evaluate(T const* operands,
                                                     index_place const& place = {}) {
    return evaluate_all<By, Given>(operands, place,
                                   std::make_index_sequence<std::size_t(functions.count)>{});
  }

 private:
  // These are static members and not local constants of evaluate(), because nvcc warns of constexpr
  // host functions that are called in a kernel.
  template <int Function, int Operand>
  static constexpr int value = table.at[functions.at[Function]].own[Operand];
  template <int Value>
  static constexpr bool is_number = table.at[Value].kind == node_kind::number;
  template <int Value>
  static constexpr bool is_index_function = table.at[Value].kind == node_kind::index_function;
  template <int Value>
  static constexpr bool is_draw = table.at[Value].kind == node_kind::draw;
  template <int Value>
  static constexpr distribution draws = table.at[Value].draws;
  template <int Value>
  static constexpr int draw_number = table.at[Value].number;
  template <int Value>
  static constexpr std::uint32_t threshold = ext::dropout_threshold(table.at[Value].factor);
  template <int Value>
  static constexpr double kept_factor = 1 / (1 - table.at[Value].factor);
  template <int Value>
  static constexpr bool is_inlined = table.at[Value].is_inlined;
  template <int Value>
  static constexpr int term_of_value = table.at[Value].term;
  template <int Value>
  static constexpr double number = table.at[Value].factor;
  template <int Value>
  static constexpr int number_of =
      table.at[Value].is_inlined ? functions.place_of(Value) : table.operand_of(Map, Value);
  template <int Function>
  static constexpr bool is_data = table.at[functions.at[Function]].is_data;
  template <int Function>
  static constexpr int term_number = table.at[functions.at[Function]].term;
  template <int Function>
  static constexpr std::size_t operand_count =
      std::size_t(table.at[functions.at[Function]].own_count);

  template <int Value, class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static T operand(T const* operands, T const* made,
                                                    index_place const& place) {
    if constexpr (is_number<Value>) {
      return number_as<T>(number<Value>);
    } else if constexpr (is_index_function<Value>) {
      using function = typename Facts::template function_at<term_of_value<Value>>;
      return number_as<T>(function{}(place));
    } else if constexpr (is_draw<Value>) {
      using drawn = random_draw<draws<Value>, draw_number<Value>, typename real_number<T>::type>;
      return number_as<T>(drawn::of(place.random, threshold<Value>, kept_factor<Value>));
    } else if constexpr (is_inlined<Value>) {
      return made[number_of<Value>];
    } else {
      return operands[number_of<Value>];
    }
  }
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static T number_as(auto value) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value);
    else return T(static_cast<decltype(T{}.value)>(value));
  }
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static auto without_slope(T value) {
    if constexpr (std::is_floating_point_v<T>) return value;
    else return value.value;
  }
  template <int Function, class T, std::size_t... K>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static T call(T const* operands, T const* made,
                                                 index_place const& place,
                                                 std::index_sequence<K...>) {
    using function = typename Facts::template function_at<term_number<Function>>;
    // A function of integers and targets has no derivative, so it need not accept dual numbers.
    if constexpr (is_data<Function>)
      return number_as<T>(
          function{}(without_slope(operand<value<Function, int(K)>>(operands, made, place))...));
    else
      return function_call<function>::of(
          operand<value<Function, int(K)>>(operands, made, place)...);
  }
  /// A bit mask of the operands of the map on which the result of a function depends.
  template <int Function>
  static constexpr unsigned made_of = [] {
    unsigned masks[Facts::graph_type::function_list::most]{};
    for (int i = 0; i <= Function; ++i) {
      node const& n = table.at[functions.at[i]];
      for (int k = 0; k < n.own_count; ++k) {
        int const x = n.own[k], operand = table.operand_of(Map, x);
        if (table.at[x].is_inlined) masks[i] |= masks[functions.place_of(x)];
        else if (operand >= 0) masks[i] |= 1u << operand;
      }
    }
    return masks[Function];
  }();
  /// Returns the bit of an operand in a bit mask; 0 for operand -1. It is a function, because nvcc
  /// warns of a shift by the constant -1 even in code that does not run.
  static constexpr unsigned bit_of(int operand) { return operand < 0 ? 0u : 1u << operand; }
  /// False for an inner function that must not be evaluated: it does not depend on operand `By`,
  /// and it reads operands that are not given. Its value could be 0 / 0, and NaN times a slope of 0
  /// is NaN.
  template <int Function, int By, unsigned Given>
  static constexpr bool is_wanted =
      Given == ~0u || (made_of<Function> & ~Given) == 0 || (made_of<Function> & bit_of(By)) != 0;

  template <int By, unsigned Given, class T, std::size_t... I>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static T evaluate_all(T const* operands,
                                                         index_place const& place,
                                                         std::index_sequence<I...>) {
    T made[sizeof...(I)]{};
    (make_one<int(I), is_wanted<int(I), By, Given>>(operands, made, place), ...);
    return made[sizeof...(I) - 1];
  }
  template <int Function, bool IsWanted, class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static void make_one(T const* operands, T* made,
                                                        index_place const& place) {
    if constexpr (IsWanted)
      made[Function] = call<Function>(operands, static_cast<T const*>(made), place,
                                      std::make_index_sequence<operand_count<Function>>{});
  }
};

/// Returns true if a map is linear in all of its operands together.
template <class Graph>
constexpr bool is_linear_map(Graph const& g, int map) {
  auto const functions = g.functions_of(map);
  for (int i = 0; i < functions.count; ++i) {
    node const& n = g.at[functions.at[i]];
    int numbers = 0;
    for (int k = 0; k < n.own_count; ++k) numbers += g.is_shapeless(n.own[k]) ? 1 : 0;
    bool const is_scaled = n.is == algebra::product && numbers == 1;
    bool const is_divided = n.is == algebra::quotient && g.is_shapeless(n.own[1]) && numbers == 1;
    bool const is_sum = numbers == 0 && (n.is == algebra::sum || n.is == algebra::difference ||
                                         n.is == algebra::negation);
    if (!is_scaled && !is_divided && !is_sum) return false;
  }
  return true;
}

/// The function of a map, which ops.map calls for each element. If the map reads the places of
/// elements, the first argument is the place.
template <class Facts, int Map>
struct map_value {
  static constexpr bool is_linear = is_linear_map(Facts::table, Map);
  static constexpr bool is_linear_in_last =
      Facts::table.is_linear_in(Map, Facts::table.at[Map].count - 1);
  static constexpr bool is_placed = Facts::table.is_placed(Map);
  static constexpr bool is_drawn = Facts::table.is_drawn(Map);

  template <class T, class... More>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(index_place const& place, T first,
                                                More... more) const {
    T const operands[]{first, more...};
    return fused_map<Facts, Map>::evaluate(operands, place);
  }

  template <class T, class... More>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(T first, More... more) const {
    T const operands[]{first, more...};
    return fused_map<Facts, Map>::evaluate(operands);
  }
};

template <class Term>
inline constexpr bool has_derivative_by_hand = false;
template <class Function, class... Operands>
inline constexpr bool has_derivative_by_hand<term<op::map<Function>, Operands...>> =
    derivative_by_hand<Function>::exists;

/// The derivative of a map with respect to one of its operands, times dy. Its arguments are the
/// operands that the derivative reads, and dy.
template <class Facts, int Slope>
struct map_slope {
  static constexpr node n = Facts::table.at[Slope];
  static constexpr bool is_linear = n.count == 1, is_linear_in_last = true;
  static constexpr bool is_placed = Facts::table.is_placed(n.of);
  static constexpr bool is_drawn = Facts::table.is_drawn(n.of);

  template <class T, class... More>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(T first, More... more) const {
    return (*this)(index_place{}, first, more...);
  }
  template <class T, class... More>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(index_place const& place, T first,
                                                More... more) const {
    T const given[]{first, more...};
    if constexpr (is_by_hand) {
      using function = typename Facts::template function_at<term_number>;
      return typename derivative_by_hand<function>::type{}(given[0], given[last]);
    } else {
      if constexpr (masks_rows)
        if (given[last] == T{0}) return T{0};
      functions::dual_number<T> operands[count]{};
      set_all(operands, given, std::make_index_sequence<count>{});
      return fused_map<Facts, map>::template evaluate<by, read_operands>(operands, place).slope *
             given[last];
    }
  }

 private:
  static constexpr std::size_t count = std::size_t(Facts::table.at[n.of].count);
  static constexpr int term_number = Facts::table.at[n.of].term;
  static constexpr int map = n.of, last = n.count - 1;
  static constexpr bool is_by_hand =
      Facts::table.functions_of(n.of).count == 1 &&
      has_derivative_by_hand<typename Facts::template term_at<term_number>>;
  /// The place of the map's operand K among the arguments, or -1.
  template <std::size_t K>
  static constexpr int number_of = [] {
    for (int i = 0; i + 1 < n.count; ++i)
      if (n.operands[i] == Facts::table.at[n.of].operands[K]) return i;
    return -1;
  }();
  static constexpr int by = n.number;
  /// True if the result is set to 0 in rows where dy is 0, which are the rows that do not
  /// contribute to the loss. There the derivative may be NaN, which must not be added to sums over
  /// rows.
  static constexpr bool masks_rows = Facts::table.is_loss && Facts::table.parameter_count > 0;
  static constexpr unsigned read_operands = [] {
    unsigned out = 0;
    for (std::size_t k = 0; k < count; ++k)
      for (int i = 0; i + 1 < n.count; ++i)
        if (n.operands[i] == Facts::table.at[n.of].operands[k]) out |= 1u << k;
    return out;
  }();

  template <class T, std::size_t... K>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static void set_all(functions::dual_number<T>* operands,
                                                       T const* given, std::index_sequence<K...>) {
    ((operands[K] = {number_of<K> >= 0 ? given[number_of<K> >= 0 ? number_of<K> : 0] : T{0},
                     int(K) == by ? T{1} : T{0}}),
     ...);
  }
};

/// An elementwise function that repeats the single number of each row, times a factor, for each
/// element of the row.
template <class Facts, int Node>
struct repeated {
  static constexpr bool is_linear = true, is_placed = false, is_drawn = false;
  static constexpr double factor = Facts::table.at[Node].factor;

  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE T operator()(T x) const {
    return static_cast<T>(factor) * x;
  }
};

/// The column of an operand that a column of the result reads. The shapes are aligned at their last
/// factors.
///
/// Example: the result has columns [2, 4] and the operand has 4 columns. Column 6 of the result,
/// element 2 of head 1, reads column 2 of the operand.
struct column_map {
  static constexpr int most = node::most_factors;
  std::size_t divisor[most]{1, 1, 1}, extent[most]{1, 1, 1}, stride[most]{};
  std::size_t width = 1;  ///< the number of columns of the operand
  /// The number of columns of the operand that are read by `block` consecutive columns of the
  /// result.
  std::size_t read_block = 1;
  bool is_same = false;  ///< the operand has the same columns as the result

  constexpr column_map(node const& made, node const& of, std::size_t block) {
    width = std::size_t(of.width());
    is_same = width == std::size_t(made.width());
    std::size_t const blocks = std::size_t(made.width()) / block;
    read_block = blocks == 0 || width < blocks ? width : width / blocks;
    std::size_t divide = 1, step = 1;
    for (int f = 1; f <= made.factor_count; ++f) {
      auto const length = std::size_t(made.factors[made.factor_count - f].extent);
      divisor[f - 1] = divide, extent[f - 1] = length;
      divide *= length;
      if (f > of.factor_count) continue;
      auto const own = std::size_t(of.factors[of.factor_count - f].extent);
      if (own == length) stride[f - 1] = step;
      step *= own;
    }
  }
};

/// The random key and the sequence length that a body passes to an elementwise function that draws
/// random numbers.
struct random_source {
  ext::dropout_key key{};
  std::size_t positions = 1;  ///< the length of the whole sequence
  bool is_training = false;

  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE random_place place_of(ext::element_place const& at,
                                                         std::size_t columns) const {
    if (!is_training) return {};
    return {{key.seed, key.site, *key.step},
            (at.sample * positions + at.position) * columns + at.column,
            true};
  }
};
struct no_random_source {};
/// The type in which an elementwise function computes if its operands have these types.
template <class... Numbers>
using common_number = std::conditional_t<(std::is_integral_v<Numbers> && ...), double,
                                         std::common_type_t<Numbers...>>;

/// An elementwise function for ops.map_at, which passes the place of each element. It repeats
/// operands along rows or along factors of the columns. `Facts` is a formula_facts, and `Node` the
/// map.
template <class Facts, class Function, int Node, std::size_t... Operand>
struct function_at_place : std::conditional_t<Function::is_drawn, random_source, no_random_source> {
  static constexpr node n = Facts::table.at[Node];
  static constexpr std::size_t whole_columns = std::size_t(n.width());
  /// The number of consecutive columns that must stay on one rank: the product of the lengths of
  /// all factors except the slowest.
  static constexpr std::size_t block =
      n.factor_count <= 1 ? 1 : std::size_t(n.width() / n.factors[0].extent);
  template <std::size_t K>
  static constexpr column_map columns{n, Facts::table.at[n.operands[K]], block};
  static constexpr std::size_t read_blocks[sizeof...(Operand)]{columns<Operand>.read_block...};
  static constexpr bool is_linear = Function::is_linear;
  static constexpr bool is_linear_in_last = [] {
    if constexpr (requires { Function::is_linear_in_last; }) return Function::is_linear_in_last;
    else return false;
  }();

  template <class... Rows>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(ext::element_place const& at,
                                                   Rows... rows) const {
    using number = common_number<decltype(rows[0])...>;
    if constexpr (Function::is_placed)
      return Function{}(index_of(at), static_cast<number>(rows[column<Operand>(at.column)])...);
    else return Function{}(static_cast<number>(rows[column<Operand>(at.column)])...);
  }

 private:
  /// The number of consecutive columns with one index in factor F: the product of the lengths of
  /// the faster factors. `length` is the length of factor F.
  template <int F>
  static constexpr std::size_t faster = [] {
    std::size_t out = 1;
    for (int f = F + 1; f < n.factor_count; ++f) out *= std::size_t(n.factors[f].extent);
    return out;
  }();
  template <int F>
  static constexpr std::size_t length = F < n.factor_count ? std::size_t(n.factors[F].extent) : 1;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE index_place index_of(ext::element_place const& at) const {
    index_place out{at.position,
                    at.sample,
                    {at.column / faster<0> % length<0>, at.column / faster<1> % length<1>,
                     at.column / faster<2> % length<2>}};
    if constexpr (Function::is_drawn) out.random = this->place_of(at, whole_columns);
    return out;
  }

  template <std::size_t K, int F>
  static constexpr std::size_t divisor = columns<K>.divisor[F];
  template <std::size_t K, int F>
  static constexpr std::size_t extent = columns<K>.extent[F];
  template <std::size_t K, int F>
  static constexpr std::size_t stride = columns<K>.stride[F];
  template <std::size_t K>
  static constexpr bool is_same = columns<K>.is_same;
  template <std::size_t K>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static std::size_t column(std::size_t made) {
    if constexpr (is_same<K>) return made;
    else
      return made / divisor<K, 0> % extent<K, 0> * stride<K, 0> +
             made / divisor<K, 1> % extent<K, 1> * stride<K, 1> +
             made / divisor<K, 2> % extent<K, 2> * stride<K, 2>;
  }
};

/// An elementwise function that returns the sum of two gradients.
struct sum_of_two {
  static constexpr bool is_linear = true, is_placed = false, is_drawn = false;

  template <class A, class B>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(A a, B b) const {
    return a + b;
  }
};

/// Writes the sum of the columns of each row, times a factor.
template <class Facts, int Node>
struct sum_of_row {
  static constexpr double factor = Facts::table.at[Node].factor;

  template <class X, class Y>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, Y* y) const {
    accumulate_t<Y> sum{};
    for (std::size_t i = 0; i < columns; ++i) sum += static_cast<accumulate_t<Y>>(x[i]);
    *y = static_cast<Y>(static_cast<accumulate_t<Y>>(factor) * sum);
  }
};

}  // namespace plait::formula
