// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "plait/core/name.hpp"
#include "plait/core/type_list.hpp"
#include "plait/formula/adjoint.hpp"
#include "plait/formula/builder.hpp"
#include "plait/formula/forms.hpp"
#include "plait/formula/fused.hpp"
#include "plait/formula/graph.hpp"
#include "plait/formula/memory.hpp"
#include "plait/formula/own.hpp"
#include "plait/formula/terms.hpp"
#include "plait/layer/slot.hpp"
#include "plait/layer/value.hpp"

/// All compile-time constants that are derived from the formula of a layer.
namespace plait::formula {

// ---- The distinct terms of an expression; operands precede the terms that read them -------------

template <class List, class T>
struct with_terms {
  using type = List;
};
template <class List, class... Operands>
struct with_all_terms {
  using type = List;
};
template <class List, class First, class... More>
struct with_all_terms<List, First, More...>
    : with_all_terms<typename with_terms<List, First>::type, More...> {};
template <class T, class... Terms>
inline constexpr bool is_among = (std::is_same_v<T, Terms> || ...);
template <class List, class T>
struct with_term;
template <class... Terms, class T>
struct with_term<std::tuple<Terms...>, T> {
  using type = std::tuple<Terms..., T>;
};
template <class... Terms, class T>
  requires(!is_among<T, Terms...>)
struct with_terms<std::tuple<Terms...>, T> {
  using type = std::tuple<Terms..., T>;
};
template <class... Terms, class Operation, class... Operands>
  requires(!is_among<term<Operation, Operands...>, Terms...>)
struct with_terms<std::tuple<Terms...>, term<Operation, Operands...>>
    : with_term<typename with_all_terms<std::tuple<Terms...>, Operands...>::type,
                term<Operation, Operands...>> {};

// ---- The inputs
// -----------------------------------------------------------------------------------

template <class Input>
struct input_list {
  using type = std::tuple<Input>;
};
template <class... Inputs>
struct input_list<inputs<Inputs...>> {
  using type = std::tuple<Inputs...>;
};
template <class L, std::size_t... I>
auto call_formula(std::index_sequence<I...>) {
  return L::formula(input_value<int(I)>{}...);
}

// ---- Terms as nodes
// -------------------------------------------------------------------------------

/// Adds the nodes of a term to the graph. `operands`: the nodes of the term's operands.
template <class Inputs>
struct term_placer {
  template <class Graph, int Index>
  static constexpr void place(Graph& g, input_value<Index>, int const*) {
    using input = plait::detail::type_at<Inputs, std::size_t(Index)>;
    constexpr ext::value_info info = input::info;
    image_shape image;
    if constexpr (info.channels > 0)
      image = {int(info.channels), int(info.height), int(info.width / info.channels / info.height)};
    graph_builder<Graph>{g}.input(Index, int(info.width), info.kind, image);
  }
  template <class Graph, ext::name Label, class Extents, initializer Initial, std::size_t Padding,
            class InFiles>
  static constexpr void place(Graph& g, parameter<Label, Extents, Initial, Padding, InFiles>,
                              int const*) {
    graph_builder<Graph>{g}.parameter(Extents::rank, int(Extents::lengths[0]),
                                      int(Extents::lengths[Extents::rank - 1]));
  }
  template <class Graph, long long Numerator, long long Denominator>
  static constexpr void place(Graph& g, number<Numerator, Denominator>, int const*) {
    graph_builder<Graph>{g}.number(number<Numerator, Denominator>::value);
  }
  template <class Graph, class Operation, class... Operands>
  static constexpr void place(Graph& g, term<Operation, Operands...>, int const* operands) {
    place_operation(graph_builder<Graph>{g}, Operation{}, operands, int(sizeof...(Operands)));
  }

 private:
  template <class Function>
  static constexpr void place_operation(auto to, op::map<Function>, int const* operands,
                                        int count) {
    constexpr algebra is = [] {
      if constexpr (requires { Function::is; }) return Function::is;
      else return algebra::other;
    }();
    constexpr bool of_integers = std::is_same_v<Function, arithmetic::to_number>;
    to.map(is, derivative_by_hand<Function>::from_output, flops_of_function<Function>, operands,
           count, of_integers);
  }
  template <class Function>
  static constexpr void place_operation(auto to, op::at<Function>, int const*, int) {
    to.index_function();
  }
  template <distribution From, int Number>
  static constexpr void place_operation(auto to, op::draw<From, Number>, int const*, int) {
    to.draw(From);
  }
  template <long long Numerator, long long Denominator>
  static constexpr void place_operation(auto to, op::dropout<Numerator, Denominator>,
                                        int const* operands, int) {
    to.dropout(operands[0], number<Numerator, Denominator>::value);
  }
  template <bool IsTransposed>
  static constexpr void place_operation(auto to, op::matmul<IsTransposed>, int const* operands,
                                        int) {
    to.product(operands[0], operands[1], IsTransposed);
  }
  template <bool IsMean>
  static constexpr void place_operation(auto to, op::reduce<IsMean>, int const* operands, int) {
    to.sum_of_columns(operands[0], IsMean);
  }
  template <int Count>
  static constexpr void place_operation(auto to, op::heads<Count>, int const* operands, int) {
    to.heads(operands[0], Count);
  }
  static constexpr void place_operation(auto to, op::side_by_side, int const* operands, int) {
    to.side_by_side(operands[0]);
  }
  template <int Number, int Count>
  static constexpr void place_operation(auto to, op::part<Number, Count>, int const* operands,
                                        int) {
    to.part(operands[0], Number, Count);
  }
  static constexpr void place_operation(auto to, op::concat, int const* operands, int count) {
    to.concat(operands, count);
  }
  template <contraction_letters Letters>
  static constexpr void place_operation(auto to, op::contract<Letters>, int const* operands, int) {
    constexpr parsed_contraction parsed(Letters);
    to.contract(operands[0], operands[1], parsed.letters, parsed.counts);
  }
  template <std::size_t Heads, std::size_t KeyValueHeads, ext::attention_options Options>
  static constexpr void place_operation(auto to, op::attention<Heads, KeyValueHeads, Options>,
                                        int const* operands, int) {
    to.attention(operands, int(Heads), int(KeyValueHeads));
  }
  template <bool IsCausal>
  static constexpr void place_operation(auto to, op::softmax<IsCausal>, int const* operands, int) {
    to.softmax(operands[0], IsCausal);
  }
  template <int Steps>
  static constexpr void place_operation(auto to, op::shift<Steps>, int const* operands, int) {
    to.shift(operands[0], Steps);
  }
  static constexpr void place_operation(auto to, op::scan, int const* operands, int) {
    to.scan(operands[0], operands[1]);
  }
  template <std::size_t Channels, std::size_t Height, std::size_t Width>
  static constexpr void place_operation(auto to, op::as_image<Channels, Height, Width>,
                                        int const* operands, int) {
    to.as_image(operands[0], {int(Channels), int(Height), int(Width)});
  }
  template <convolution_options Options>
  static constexpr void place_operation(auto to, op::convolve<Options>, int const* operands,
                                        int count) {
    to.convolve(
        operands, count,
        {int(Options.kernel), int(Options.stride), int(Options.padding), int(Options.groups)});
  }
  template <class Row, pool_options Options>
  static constexpr void place_operation(auto to, op::pool<Row, Options>, int const* operands, int) {
    constexpr std::size_t stride = Options.stride == 0 ? Options.kernel : Options.stride;
    place_pool(to, Row{}, typename Row::adjoints{}, operands[0],
               {int(Options.kernel), int(stride), int(Options.padding)});
  }
  template <class Row, class Adjoint>
  static constexpr void place_pool(auto to, Row, operation::adjoints_of<Adjoint>, int x,
                                   window_numbers const& by) {
    to.pool(x, Row::is, Adjoint::is, by);
  }
  static constexpr void place_operation(auto to, op::across, int const* operands, int) {
    to.across(operands[0]);
  }
  static constexpr void place_operation(auto to, op::log_sum_exp, int const* operands, int) {
    to.over_last_factor(operands[0], node_kind::log_sum_exp);
  }
  static constexpr void place_operation(auto to, op::maximum, int const* operands, int) {
    to.over_last_factor(operands[0], node_kind::maximum);
  }
  static constexpr void place_operation(auto to, op::with_loss, int const* operands, int) {
    to.with_loss(operands[0], operands[1]);
  }
  static constexpr void place_operation(auto to, op::pick, int const* operands, int) {
    to.pick(operands[0], operands[1]);
  }
  template <class Row, class... Numbers>
  static constexpr void place_operation(auto to, op::call<Row, Numbers...>, int const* operands,
                                        int count) {
    place_call(to, Row{}, typename Row::adjoints{}, operands, count);
  }
  template <class Row, class... Adjoints>
  static constexpr void place_call(auto to, Row, operation::adjoints_of<Adjoints...>,
                                   int const* operands, int count) {
    static_assert(sizeof...(Adjoints) <= node::most_adjoints);
    operation::row const* const adjoints[]{&Adjoints::is...};
    to.call(Row::is, std::is_same_v<Row, operation::gather_rows>, is_own_row<Row>, adjoints,
            int(sizeof...(Adjoints)), operands, count);
  }
};

// ---- Types of a node, for the code that runs it
// ---------------------------------------------------

template <class Term>
struct term_parts {};
template <class Function, class... Operands>
struct term_parts<term<op::map<Function>, Operands...>> {
  using function = Function;
};
template <class Function>
struct term_parts<term<op::at<Function>>> {
  using function = Function;
};
template <long long Numerator, long long Denominator, class X>
struct term_parts<term<op::dropout<Numerator, Denominator>, X>> {
  using function = arithmetic::multiply;
};
template <class Row, class... Numbers, class... Operands>
struct term_parts<term<op::call<Row, Numbers...>, Operands...>> {
  using row = Row;
  using numbers = std::tuple<Numbers...>;
};
template <std::size_t Heads, std::size_t KeyValueHeads, ext::attention_options Options,
          class... Operands>
struct term_parts<term<op::attention<Heads, KeyValueHeads, Options>, Operands...>> {
  template <int Width>
  using groups = ext::head_groups<Heads, KeyValueHeads, std::size_t(Width) / Heads, Options>;
};
template <class Adjoints>
struct adjoint_list;
template <class... Rows>
struct adjoint_list<operation::adjoints_of<Rows...>> {
  using type = std::tuple<Rows...>;
};

/// The largest number of leaves (inputs, parameters and numbers) of a formula. A leaf counts as
/// often as the formula reads it.
inline constexpr int most_leaves = 300;
/// The largest number of operations of a formula and its gradients, with inputs and parameters.
/// Compilers limit the number of steps in a constant expression; the limit of clang is the lowest.
inline constexpr int most_nodes = 256;

/// The distinct terms of the formula of L. The first nodes of the formula's graph represent these
/// terms.
template <class L>
struct formula_terms {
  using inputs = typename input_list<typename L::input>::type;
  static constexpr int input_count = int(std::tuple_size_v<inputs>);
  using expression =
      decltype(call_formula<L>(std::make_index_sequence<std::size_t(input_count)>{}));
  using list = typename with_terms<std::tuple<>, std::remove_cv_t<expression>>::type;
  static constexpr int count = int(std::tuple_size_v<list>);
  using graph_type = graph<8 * count + 8>;

  static constexpr bool is_loss = [] {
    if constexpr (requires { typename L::output; })
      return std::is_same_v<typename L::output, loss_value>;
    else return false;
  }();

  static constexpr graph_type make_graph() {
    graph_type g;
    g.input_count = input_count;
    if constexpr (requires { L::sequence; }) g.sequence = int(L::sequence);
    g.is_loss = is_loss;
    if (is_loss && !has_targets()) g.fail(mistake::kind::loss_inputs, input_count);
    place_all(g, static_cast<list*>(nullptr));
    if (g.has_failed()) return g;
    if (g.loss_term < 0) {
      g.output = g.size - 1;
      // The output is the first result of its call.
      while (g.at[g.output].kind == node_kind::result) --g.output;
      if (is_loss) g.loss_term = g.output;
    }
    if (!g.at[g.output].is_per_row() || g.is_leaf(g.output)) {
      g.fail(mistake::kind::output_shape);
      g.blame(count - 1);
      return g;
    }
    if (g.loss_term >= 0 && !is_number_of_row(g.at[g.loss_term])) {
      g.fail(mistake::kind::loss_width);
      g.blame(g.at[g.loss_term].term);
      return g;
    }
    g.join_biases();
    g.fuse();
    if (g.has_failed()) return g;
    g.forward_size = g.size;
    adjoint_writer<graph_type>{g}.write();
    if (g.size > most_nodes) g.fail(mistake::kind::too_many_nodes, g.size);
    return g;
  }

 private:
  static constexpr bool has_targets() {
    if constexpr (input_count != 2) return false;
    else
      return std::tuple_element_t<0, inputs>::info.kind == ext::value_kind::features &&
             std::tuple_element_t<1, inputs>::info.kind != ext::value_kind::features;
  }
  static constexpr bool is_number_of_row(node const& of) {
    return of.is_per_row() && of.width() == 1;
  }
  /// The node of a term, and the number of leaves of its expression. A value that is used twice
  /// counts twice, because compilers write it out at each use when they print the type of the
  /// expression.
  struct placed_term {
    int node = 0, leaves = 1;
  };
  template <class... Terms>
  static constexpr void place_all(graph_type& g, std::tuple<Terms...>*) {
    placed_term terms[sizeof...(Terms)]{};
    int number = 0;
    (place<Terms>(g, terms, number), ...);
  }
  template <class Term>
  static constexpr void place(graph_type& g, placed_term* terms, int& number) {
    if (g.loss_term >= 0) g.fail(mistake::kind::inner_with_loss), g.blame(number - 1);
    if (g.has_failed()) return;
    placed_term& made = terms[number];
    made.node = g.size;
    int operands[node::most_operands]{};
    find_operands(operands, made, terms, static_cast<Term*>(nullptr));
    // Each operand has at most `most_leaves` leaves, so the sum does not overflow an int.
    if (made.leaves > most_leaves) g.fail(mistake::kind::too_many_leaves, made.leaves);
    else term_placer<inputs>::place(g, Term{}, operands);
    g.blame(number);
    // A dropout first adds the node of its draw, and a scan may add the broadcast of its decay; the
    // node of the term itself is next.
    if (made.node + 1 < g.size &&
        (g.at[made.node].kind == node_kind::draw || g.at[made.node].kind == node_kind::broadcast))
      ++made.node;
    for (int i = made.node; i < g.size; ++i) g.at[i].term = number;
    ++number;
  }
  template <class Operation, class... Operands>
  static constexpr void find_operands([[maybe_unused]] int* out, placed_term& made,
                                      [[maybe_unused]] placed_term const* terms,
                                      term<Operation, Operands...>*) {
    made.leaves = sizeof...(Operands) == 0 ? 1 : 0;
    [[maybe_unused]] auto const find = [&](placed_term const& operand) {
      *out++ = operand.node;
      made.leaves += operand.leaves;
    };
    (find(terms[place_of<Operands>(static_cast<list*>(nullptr))]), ...);
  }
  static constexpr void find_operands(int*, placed_term&, placed_term const*, void*) {}
  template <class T, class... Terms>
  static constexpr int place_of(std::tuple<Terms...>*) {
    return plait::detail::place_of_first({std::is_same_v<T, Terms>...});
  }
};

/// Returns the FLOPs of a contraction for each row of its result.
template <class Graph>
constexpr double contraction_flops(Graph const& g, node const& n) {
  double out = operation::matmul::is.flops * n.width();
  for (int side = 0; side < 2; ++side) {
    node const& x = g.at[n.operands[side]];
    for (int d = 0; d <= x.factor_count; ++d) {
      char const letter = n.letters[side][d];
      bool is_counted = side == 1 && holds(n.letters[0], letter);
      is_counted = is_counted || holds(n.letters[2], letter);
      if (!is_counted) out *= d == 0 ? g.sequence : x.factors[d - 1].extent;
    }
  }
  return out;
}
/// Returns the number of elements from which one element of a call's result is computed: 1, or the
/// number of elements of a window.
template <class Graph>
constexpr int elements_of_call(Graph const& g, node const& n) {
  if (n.windows.kernel == 0) return 1;
  return n.count == 1 ? n.windows.kernel * n.windows.kernel : g.at[n.operands[1]].width();
}
/// For a call of an operation that the program declares, returns the number of points of its
/// iteration space that belong to one row: the product of the lengths of all indices except the
/// index of the rows.
template <class Graph>
constexpr double elements_of_own(Graph const& g, node const& n) {
  auto const by = operation::signature::of(n.row->text);
  double out = 1;
  std::uint32_t seen = operation::signature::bit(by.operands[0].rows.index);
  for (int k = 0; k < n.count; ++k)
    for (int d = 0; d < 2; ++d) {
      node const& x = g.at[n.operands[k]];
      char const index = by.dimension_of(k, d).index;
      if (index == '1' || (seen & operation::signature::bit(index)) != 0) continue;
      seen |= operation::signature::bit(index);
      out *= (d == 0 ? x.rows : x.last()).extent;
    }
  return out;
}
/// Returns the FLOPs of a node of the forward for each row.
template <class Graph>
constexpr double flops_of(Graph const& g, int i) {
  node const& n = g.at[i];
  double const width = n.width();
  switch (n.kind) {
    case node_kind::product:
      return operation::matmul::is.flops * width * g.at[n.operands[0]].width();
    case node_kind::map: return n.flops * width;
    case node_kind::reduce: return g.at[n.operands[0]].width();
    case node_kind::contract: return contraction_flops(g, n);
    case node_kind::attention: return 4 * width * g.sequence;
    case node_kind::softmax: return 5 * width;
    case node_kind::log_sum_exp: return 4 * g.at[n.operands[0]].width();
    case node_kind::maximum: return g.at[n.operands[0]].width();
    case node_kind::scan: return 2 * width;
    case node_kind::call:
      return n.row->flops * (n.is_own ? elements_of_own(g, n) : width * elements_of_call(g, n));
    default: return 0;
  }
}

/// All constants that follow from the formula of L: its graph, parameters, forms, memory and FLOPs.
///
/// Example: for `formula(x) = matmul(x, w)` with w of 8 x 12, `table` has the nodes x, w, x w, dy,
/// dy transposed(w) and transposed(x) dy, and `flops_per_row` is 2 * 8 * 12.
template <class L>
struct formula_facts {
  using terms = formula_terms<L>;
  using graph_type = typename terms::graph_type;
  template <int Term>
  using term_at = plait::detail::type_at<typename terms::list, std::size_t(Term)>;
  template <int Term>
  using function_at = typename term_parts<term_at<Term>>::function;

  static constexpr graph_type table = terms::make_graph();

  template <int Number>
  using parameter_at = term_at<table.at[table.parameters[Number]].term>;
  static constexpr int parameter_count = table.parameter_count;

  static constexpr bool has_convolution = [] {
    for (int i = 0; i < table.forward_size; ++i)
      if (table.at[i].is_convolution) return true;
    return false;
  }();

  static constexpr bool has_names_of_their_own() {
    return []<std::size_t... K>(std::index_sequence<K...>) {
      ext::name const labels[sizeof...(K) + 1]{parameter_at<int(K)>::label...};
      for (int i = 0; i < parameter_count; ++i)
        for (int k = 0; k < i; ++k)
          if (labels[i] == labels[k]) return false;
      return true;
    }(std::make_index_sequence<std::size_t(parameter_count)>{});
  }
  static constexpr formula_forms<graph_type> forms =
      []<std::size_t... K>(std::index_sequence<K...>) {
        ext::name const labels[sizeof...(K) + 1]{parameter_at<int(K)>::label...};
        return formula_forms<graph_type>(table, labels);
      }(std::make_index_sequence<std::size_t(parameter_count)>{});
  static constexpr value_memory<graph_type> memory{table, forms};

  /// The number of FLOPs of the forward for each row.
  static constexpr double flops_per_row = [] {
    double out = 0;
    for (int i = 0; i < table.forward_size; ++i) out += flops_of(table, i);
    return out;
  }();
  static constexpr double shared_flops(formula_form<graph_type> const& form) {
    double out = 0;
    for (int i = 0; i < table.forward_size; ++i)
      if (form.is_shared[i]) out += flops_of(table, i);
    return out;
  }
};

/// Returns the name of a slot: "value_3".
constexpr ext::name slot_label(int number) {
  constexpr char text[]{"value_"};
  std::uint64_t word = 0;
  int place = 0;
  for (; text[place] != 0; ++place) word |= std::uint64_t(text[place]) << (8 * place);
  if (number >= 10) word |= std::uint64_t('0' + number / 10) << (8 * place++);
  word |= std::uint64_t('0' + number % 10) << (8 * place);
  return {word, 0, 0, 0};
}

/// The slot of a value of a formula.
template <class Facts, int Value>
using slot_of = slot<slot_label(Value), std::size_t(Facts::table.at[Value].width()),
                     Facts::memory.element[Value]>;

}  // namespace plait::formula
