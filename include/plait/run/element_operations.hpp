// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "plait/backend/element_place.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/typing.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"
#include "plait/operation/signature.hpp"
#include "plait/run/carry_out.hpp"
#include "plait/run/context.hpp"
#include "plait/run/operands.hpp"
#include "plait/run/shapes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// The operations of a layer's body that compute one element or one row at a time. There are also
/// functions that return the global position of a view. \see operations
template <class Rank>
class element_operations {
  template <class T, placement At>
  using view_of = view<T, At, typename Rank::device_type::memory>;
  using token_input = token_view<typename Rank::device_type::memory>;

 public:
  element_operations(Rank& rank, layer_context const& where, int leaf, char const* body)
      : context(where), queue_(rank.device().on(stream::compute)), shapes_(leaf, body) {}

  /// The numbers of the step, of the layer's copy and of the microbatch, and the global position of
  /// this rank's block.
  layer_context const& context;

  /// Returns the global sequence position of the first row of a view.
  template <class View>
  [[nodiscard]] std::size_t first_position(View const& x) const {
    return typing::is_rows(View::at) ? positions(x) * rank() : 0;
  }
  /// Returns the number of sequence positions that the rows of a view cover.
  template <class View>
  [[nodiscard]] std::size_t positions(View const& x) const {
    return x.rows / context.batch;
  }
  /// Returns the position of each row of a view within its document, for samples that consist of
  /// several documents; null data if each sample is one document.
  template <class View>
  [[nodiscard]] token_input document_positions(View const& x) const {
    if (context.document_positions == nullptr) return {};
    return {context.document_positions + first_position(x) * context.batch, x.rows};
  }
  /// Returns the first global column of a view.
  template <class View>
  [[nodiscard]] std::size_t first_column(View const& x) const {
    static_assert(View::at.parts == 1,
                  "ops.first_column(x), also in dropout, cross_entropy and map_at: x is cut in "
                  "several parts, so that this rank's columns are not adjacent; write "
                  "shard<dim::features>, without parts, in the form");
    return typing::is_columns(View::at) ? x.columns * rank() : 0;
  }
  /// Returns the first global row of a parameter's view.
  template <class View>
  [[nodiscard]] std::size_t first_row(View const& x) const {
    return typing::is_rows(View::at) ? x.rows * rank() : 0;
  }

  /// Copies x to y. y may be x.
  template <class X, class T, placement At, placement Out>
  void copy(view_of<X, At> x, view_of<T, Out> y) {
    static_assert(typing::sound_written<T>);
    static_assert(typing::sound_copy<std::is_same_v<std::remove_const_t<X>, std::remove_const_t<T>>,
                                     At, Out>);
    shapes_.equal("copy", named("y", y), named("x", x));
    queue_.copy_bytes(x.data, y.data, x.count() * sizeof(T));
  }
  /// Sets y to 0, so that sums can be added to y. y may have any placement except partial_max.
  template <class T, placement At>
  void clear(view_of<T, At> y) {
    static_assert(typing::sound_written<T>);
    static_assert(At != partial_max,
                  "ops.clear(y): y is partial_max, and a maximum with 0 is wrong if all other "
                  "values are negative");
    queue_.fill(T{0}, y.data, y.count());
  }
  /// Computes out = a + b. out may be a or b.
  void add(auto a, auto b, auto out) { call(operation::add{}, a, b, out); }
  /// Computes y = f(x...), element by element: map(f, x, y), map(f, a, b, y) or map(f, a, b, c, y).
  /// The type of `f` has a name and a PLAIT_HOST_DEVICE call operator, which takes one number for
  /// each operand. The member `is_linear` of this type declares that f is linear in all operands
  /// together, as a sum is. The member `is_linear_in_last` declares that f is linear in the last
  /// operand if the other operands are fixed, as a product is. y may be an operand.
  template <class Function, class X, class T, placement At, placement Out>
  void map(Function f, view_of<X, At> x, view_of<T, Out> y) {
    map_onto(f, y, named("x", x), x);
  }
  template <class Function, class X, class Y, class T, placement A, placement B, placement Out>
  void map(Function f, view_of<X, A> a, view_of<Y, B> b, view_of<T, Out> y) {
    shapes_.equal("map", named("b", b), named("y", y));
    map_onto(f, y, named("a", a), a, b);
  }
  template <class Function, class X, class Y, class Z, class T, placement A, placement B,
            placement C, placement Out>
  void map(Function f, view_of<X, A> a, view_of<Y, B> b, view_of<Z, C> c, view_of<T, Out> y) {
    shapes_.equal("map", named("b", b), named("y", y));
    shapes_.equal("map", named("c", c), named("y", y));
    map_onto(f, y, named("a", a), a, b, c);
  }
  /// Computes y[r][c] = f(at, row of each view...), one element at a time. f may depend on the
  /// global place of the element, which is `at`, an ext::element_place, and it may read the rows at
  /// any column. A row is an ext::element_row, which f indexes by columns of the whole row, even if
  /// this rank has only a block of the row. The type of `f` is as for `map`.
  ///
  /// f declares `static constexpr std::size_t block = N;` if it reads only the block of N columns
  /// that contains its own column, which starts at column at.column / N * N. Then y may be cut by
  /// columns in whole blocks, and if N is 1, y may be one of the views. If the views and y have
  /// different numbers of columns, f also declares `read_block`: it reads only `read_block`
  /// columns, starting at column at.column / block * read_block. It can declare `static constexpr
  /// std::size_t read_blocks[]` instead, with a number for each view.
  ///
  /// Shapes: y has a row for each row of activations, or one for each position. A view has as many
  ///         rows as y, or one row for all rows of y. A view that is cut by columns has the same
  ///         columns as y, or the same number of blocks.
  template <class Function, class T, placement Out, class... Views>
  void map_at(Function f, view_of<T, Out> y, Views... views) {
    constexpr std::size_t block = typing::block_of<Function>;
    static_assert(typing::sound_map_at<typing::linearity_of<Function>, block, Out, Views::at...>);
    static_assert(typing::sound_written<T>);
    static_assert(
        typing::sound_function_at<
            std::is_invocable_r_v<double, Function const&, element_place const&,
                                  element_row<std::remove_const_t<typename Views::element>>...>>);
    constexpr auto name = "map_at";
    std::size_t const samples =
        shapes_.rows_of_position(name, named("y", y), positions_at<Out>(), context.batch);
    element_block const of{y.rows,
                           y.columns,
                           samples,
                           typing::is_rows(Out) ? positions_at<Out>() * rank() : 0,
                           samples == 1 && context.batch != 1 ? 0 : context.first_sample,
                           first_column(y)};
    if constexpr (typing::is_columns(Out)) shapes_.whole_blocks(name, named("y", y), block);
    map_block(f, of, y, std::index_sequence_for<Views...>{}, views...);
  }
  /// Calls f(columns, pointer to a row of each view...) for every row; if a view has only one row,
  /// each call gets this row. A pointer is to const if its view has const elements. The type of f
  /// is as for `map`. If f declares `static constexpr bool takes_row = true;`, its first argument
  /// is the index of the row.
  template <class Function, class First, class... Views>
  void rows(Function f, First first, Views... views) {
    static_assert(typing::sound_whole_rows<First::at>);
    auto const strided = [&](auto of) {
      shapes_.row_by_row("rows", named("a view", of), named("the first view", first));
      std::size_t width = 1;  // tokens have one column
      if constexpr (requires { of.columns; }) width = of.columns;
      return matrix{of.data, std::min(of.rows, first.rows), width,
                    of.rows == 1 && first.rows != 1 ? 0 : width};
    };
    if constexpr (requires { Function::takes_row; })
      carry_out(queue_, operation::rows{},
                numbered_rows<Function, typename First::element>{f, first.data, first.columns},
                first.rows, first.columns, strided(first), strided(views)...);
    else
      carry_out(queue_, operation::rows{}, f, first.rows, first.columns, strided(first),
                strided(views)...);
  }

  /// Runs an operation that the layer defines itself: calls kernel(queue, views...) with the
  /// `queue` of the rank's device; on a GPU the queue has the stream on which the kernel launches
  /// its work. The kernel only reads a view of const elements, may read and write any other view,
  /// and must not touch any other memory.
  ///
  /// All views have the same placement, with one exception: if some views are cut by rows, a view
  /// that the kernel reads may be replicate, and a view that it writes may be partial. A view that
  /// the kernel reads may be partial only if the kernel declares `is_linear`. If a kernel declares
  /// `any_placement`, plait does not check placements. The kernel itself checks the shapes of its
  /// views.
  template <class Kernel, class... Views>
    requires(!operation::is_row<Kernel>)
  void run(Kernel kernel, Views... views) {
    constexpr bool is_linear = typing::linearity_of<Kernel> == typing::linearity::in_all;
    if constexpr (!requires { requires Kernel::any_placement; })
      static_assert(typing::sound_run<is_linear, Views...>);
    queue_.run(kernel, views...);
  }
  /// Runs an operation that a row type describes: a row of operation/rows.hpp, or a user's own row
  /// for which the device's queue has a kernel. The arguments are the row's operands, as views and
  /// tokens, and then the numbers of the kernel.
  ///
  /// Errors: if the row does not allow the placement of an operand, the call does not compile;
  ///         size_mismatch if the length of an index differs between two operands.
  template <operation::is_row Row, class... Arguments>
  void run(Row row, Arguments... arguments) {
    constexpr auto& indices = operation::indices_of<Row>;
    static_assert(typing::sound_own_row < Row, indices.is_part || indices.count == 0 >);
    call(row, arguments...);
  }
  /// Runs an operation that the layer defines itself, with a signature: the indices of the
  /// operands, as in operation/signature.hpp. For example, "r i, i j -> r j" is a matrix product.
  /// The allowed placements and the shapes of the views follow from the indices. A view whose
  /// indices are before "->" is read, and a view whose indices are after it is written; tokens have
  /// no indices.
  ///
  /// Errors: size_mismatch if the length of an index differs between two views.
  ///
  /// Example (tests/run/own_operation_test.cpp product):
  ///     ops.template run<"r i, i j -> r j; linear each">(product{}, l.x, l.p[weight{}], l.y);
  template <operation::signature Of, class Kernel, class... Views>
  void run(Kernel kernel, Views... views) {
    static_assert(typing::sound_run_by_indices<Of, Views...>);
    named_shape shapes[sizeof...(Views) + 1];
    int next = 0;
    auto const add = [&](auto const& of) {
      if constexpr (requires { of.at; }) shapes[next++] = named("", of);
    };
    (add(views), ...);
    shapes_.by_indices("run", Of, shapes);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      constexpr typing::indexed_arguments<Views...> indexed(Of, false);
      queue_.run(kernel, in_role<indexed.is_read[I]>(views)...);
    }(std::index_sequence_for<Views...>{});
  }

 protected:
  template <class Argument>
  static consteval bool lies_here() {
    if constexpr (requires { typename Argument::memory; })
      return typing::sound_memory<
          Argument, std::is_same_v<typename Argument::memory, typename Rank::device_type::memory>>;
    else return true;
  }
  /// True if the number, placements, element types and memory of the arguments are as the
  /// operation's row requires; otherwise an assertion fails.
  template <class Row, class... Arguments>
  static constexpr bool sound =
      typing::sound_row<Row, Arguments...> && (lies_here<Arguments>() && ... && true);

  /// Runs an operation whose shapes follow from its indices. Arguments are views and tokens, in the
  /// order of the row's operands, then the numbers of the kernel.
  template <class Row, class... Arguments>
  void call(Row row, Arguments const&... arguments) {
    check_shapes<Row>(arguments...);
    put(row, arguments...);
  }
  /// Runs an operation whose shapes have been checked.
  template <class Row, class... Arguments>
  void put(Row row, Arguments const&... arguments) {
    static_assert(sound<Row, Arguments...>);
    put_in_roles(row, std::index_sequence_for<Arguments...>{}, arguments...);
  }
  /// Checks that each index has the same length in all operands.
  template <class Row, class... Arguments>
  void check_shapes(Arguments const&... arguments) const {
    check_shapes_of<Row>(std::index_sequence_for<Arguments...>{}, arguments...);
  }

  // These are functions because nvcc does not compile initializer lists in calls such as those
  // below.
  template <class View>
  static named_shape named(char const* operand, View const& x) {
    return {operand, x.rows, x.columns};
  }
  static named_shape named(char const* operand, token_input x) { return {operand, x.rows, 1}; }

  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(context.tensor_rank); }

  typename Rank::device_type::queue queue_;
  shape_checks shapes_;

 private:
  template <int Operand, class Argument>
  static void note_lengths(std::size_t* lengths, [[maybe_unused]] Argument const& of) {
    if constexpr (Operand >= 0) {
      lengths[2 * Operand] = of.rows;
      if constexpr (requires { of.columns; }) lengths[2 * Operand + 1] = of.columns;
      else lengths[2 * Operand + 1] = 1;  // tokens have one column
    }
  }
  template <operation::shape_rule::length By>
  static bool is_as_long(std::size_t length, [[maybe_unused]] std::size_t const* lengths) {
    constexpr std::size_t parts(By.parts), of_parts(By.of_parts);
    if constexpr (By.operand == -2) return parts == 1 || length % parts == 0;
    else if constexpr (By.operand == -1) return length == parts;
    else return length * of_parts == lengths[2 * By.operand + By.dimension] * parts;
  }
  template <class Row, std::size_t... Operand>
  static bool lengths_fit(std::size_t const* lengths, std::index_sequence<Operand...>) {
    constexpr operation::shape_rule rule(operation::indices_of<Row>);
    return ((is_as_long<rule.of[Operand][0]>(lengths[2 * Operand], lengths) &&
             is_as_long<rule.of[Operand][1]>(lengths[2 * Operand + 1], lengths)) &&
            ...);
  }
  template <class Row, std::size_t... I, class... Arguments>
  void check_shapes_of(std::index_sequence<I...>, Arguments const&... arguments) const {
    constexpr auto& indices = operation::indices_of<Row>;
    constexpr typing::indexed_arguments<Arguments...> indexed(indices);
    if constexpr (indexed.count == indices.count) {  // otherwise another assertion fails
      constexpr std::size_t operands(indices.count);
      std::size_t lengths[2 * operands];
      (note_lengths<indexed.operand[I]>(lengths, arguments), ...);
      if (!lengths_fit<Row>(lengths, std::make_index_sequence<operands>{}))
        shapes_.refuse(Row::is, lengths);
    }
  }
  template <class Row, std::size_t... I, class... Arguments>
  void put_in_roles(Row row, std::index_sequence<I...>, Arguments const&... arguments) {
    constexpr typing::indexed_arguments<Arguments...> indexed(operation::indices_of<Row>);
    carry_out(queue_, row, as_operand<indexed.is_read[I]>(arguments)...);
  }
  template <class Function, class T, placement Out, class... Operands>
  void map_onto(Function f, view_of<T, Out> y, named_shape first, Operands... x) {
    static_assert(typing::sound_map<typing::linearity_of<Function>, Out, Operands::at...>);
    static_assert(typing::sound_written<T>);
    check_function<Function, typename Operands::element...>();
    shapes_.equal("map", first, named("y", y));
    carry_out(queue_, operation::map{}, f, as_operand<false>(y), as_operand<true>(x)...);
  }
  template <class Function, class... Operands>
  static consteval void check_function() {
    static_assert(
        std::is_invocable_r_v<double, Function const&,
                              accumulate_t<std::remove_const_t<Operands>>...>,
        "ops.map(f, operands..., y): f cannot be called with one number of each operand; define in "
        "f a const call operator that takes one number for each operand and returns one number");
  }

  /// Returns the number of positions of a view with placement `At`.
  template <placement At>
  [[nodiscard]] std::size_t positions_at() const {
    return typing::is_rows(At) ? context.sequence / static_cast<std::size_t>(context.tensor_ranks)
                               : context.sequence;
  }

  template <class Function, class T, placement Out, std::size_t... View, class... Views>
  void map_block(Function f, element_block const& of, view_of<T, Out> y,
                 std::index_sequence<View...>, Views... views) {
    carry_out(queue_, operation::map_at{}, f, of, as_operand<false>(y),
              operand_at<typing::block_of<Function>, typing::read_block_of<Function, View>>(
                  y, of, views)...);
  }
  /// Returns the operand of the kernel for view x, from which map_at reads the values for the
  /// elements of y.
  template <std::size_t Block, std::size_t Read, class Y, class View>
  auto operand_at(Y const& y, element_block const& of, View const& x) const {
    using element = std::remove_const_t<typename View::element>;
    constexpr auto name = "map_at";
    named_shape const shape = named("a view", x);
    if constexpr (Block != 1 || Read != 1) shapes_.not_itself(name, shape, x.data, y.data);
    if constexpr (typing::is_columns(View::at))
      shapes_.expect(name, shape, x.rows, y.columns / Block * Read, named("y", y));
    element_operand<element> out{x.data, x.count(), x.columns, first_column(x), 1};
    if (x.rows == 1) {
      out.shared_by = of.rows == 0 ? 1 : of.rows;
      return out;
    }
    std::size_t const rows =
        shapes_.rows_of_position(name, shape, positions_at<View::at>(), context.batch);
    if (rows > of.samples) shapes_.more_rows(name, shape, named("y", y));
    out.shared_by = of.samples / rows;
    // If y is cut by rows and the view is not, the view is read from the first row of this rank on.
    if constexpr (typing::is_rows(Y::at) && !typing::is_rows(View::at)) {
      std::size_t const skipped = of.first_position * rows * x.columns;
      out.data += skipped;
      out.count -= skipped;
    }
    return out;
  }
};

}  // namespace plait::execution
