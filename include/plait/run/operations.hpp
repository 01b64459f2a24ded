// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "plait/backend/arguments.hpp"
#include "plait/backend/cross_entropy_target.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/precision.hpp"
#include "plait/layer/typing.hpp"
#include "plait/operation/rows.hpp"
#include "plait/plan/schedule/synchronization.hpp"
#include "plait/run/carry_out.hpp"
#include "plait/run/context.hpp"
#include "plait/run/image_operations.hpp"
#include "plait/run/move.hpp"
#include "plait/run/operands.hpp"
#include "plait/run/shapes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// The operations that a body (a forward or backward function) of a layer may call on its views.
/// Each operation checks at compile time that the placements of its operands are allowed, then
/// checks at run time that their shapes fit, and then runs on the device. The elements of a view
/// that an operation only reads may be const.
///
/// Operations with `_backward` in their names compute gradients. Operations with an argument `sums`
/// add to the contents of this argument.
///
/// Shapes: views are matrices (rows, columns); the rows of activations are positions times samples.
/// Errors: a wrong combination of placements does not compile; a wrong combination of shapes throws
///         size_mismatch before anything is read or written.
template <class Rank>
class operations : public image_operations<Rank> {
  using base = image_operations<Rank>;
  using memory = typename Rank::device_type::memory;
  template <class T, placement At>
  using view_of = view<T, At, memory>;
  using token_input = token_view<memory>;

 public:
  /// The number of columns that stands for all columns: no columns at the end of a row are padding.
  static constexpr std::size_t all_columns = std::numeric_limits<std::size_t>::max();

  /// Makes the operations for a body of layer `leaf` of the plan, on stream::compute. `body` is the
  /// name of the body in messages, for example "mlp.c_fc backward".
  operations(Rank& on, layer_context const& where, int leaf, char const* body = "")
      : base(on, where, leaf, body), rank_(on), leaf_(leaf) {}

  using base::context;
  using base::first_column;
  using base::first_position;
  using base::first_row;
  using base::positions;

  /// Computes out = a b. To use the transpose of a, write transposed(a). `out` is a view, or the y
  /// or dx that a layer with `takes_epilogue` received.
  template <class A, class B, class Out>
  void matmul(A a, B b, Out out) {
    constexpr auto name = "matmul";
    auto const& y = written_view(out);
    if constexpr (requires { out.of; }) product(name, a, b, y, epilogue_of(name, nullptr, out));
    else product(name, a, b, y, false);
  }
  /// Computes out = a b, with `row` added to each row of the product.
  template <class A, class B, class T, placement Row, class Out>
  void matmul_add_row(A a, B b, view_of<T, Row> row, Out out) {
    constexpr auto name = "matmul_add_row";
    auto const& y = written_view(out);
    static_assert(base::template sound<operation::add_row, view_of<T, Row>,
                                       std::remove_cvref_t<decltype(y)>>);
    check_row(name, named("row", row), named("out", y));
    if constexpr (requires { out.of; }) product(name, a, b, y, epilogue_of(name, row.data, out));
    else product(name, a, b, y, epilogue<std::remove_const_t<T>>{.row = row.data});
  }
  /// Adds the matrix product a b to out. Layers use this function to add up the gradients of their
  /// parameters.
  template <class A, class B, class T, placement Out>
  void accumulate_matmul(A a, B b, view_of<T, Out> out) {
    product("accumulate_matmul", a, b, out, !begins(out.data));
  }
  /// Adds the gradients of matmul_add_row(x, w, row, y) with respect to w and row: transposed(x) dy
  /// to dw, and the sum of the rows of dy to drow. Write transposed(dw) if the argument w of
  /// matmul_add_row was transposed.
  template <class X, class T, placement At, class W, class Sum, placement Row>
  void matmul_add_row_backward_parameters(X x, view_of<T, At> dy, W dw, view_of<Sum, Row> drow) {
    static_assert(
        base::template sound<operation::accumulate_column_sums, view_of<T, At>, view_of<Sum, Row>>);
    constexpr auto name = "matmul_add_row_backward_parameters";
    check_row(name, named("drow", drow), named("dy", dy));
    constexpr bool swapped = operand<W>::is_transposed;
    auto const& out = operand<W>::of(dw);
    operand_sums<Sum> const sums{drow.data, swapped};
    bool const accumulates = !begins(out.data);
    if constexpr (swapped) product(name, transposed(dy), x, out, accumulates, sums);
    else product(name, transposed(x), dy, out, accumulates, sums);
  }
  /// Makes the next product that is added to `gradient` overwrite `gradient` instead, because its
  /// contents belong to an earlier step or microbatch.
  void begin_by_product(void const* gradient) { not_begun_ = gradient; }
  /// Checks that the body has computed the product that overwrites the gradient (see
  /// begin_by_product).
  ///
  /// Errors: plait::error if the body has not.
  void require_begun() const {
    if (not_begun_ != nullptr) shapes_.fail_not_begun();
  }

  /// Adds `row` to each row of y.
  void add_row(auto row, auto y) { call(operation::add_row{}, row, y); }
  /// Adds the sum of the rows of dy to `sums`, which is the gradient of add_row with respect to
  /// `row`.
  void accumulate_column_sums(auto dy, auto sums) {
    call(operation::accumulate_column_sums{}, dy, sums);
  }
  /// Adds to sums[c] the sum over the rows r of f(a[r][c], b[r][c]).
  void accumulate_columns(auto f, auto a, auto b, auto sums) {
    call(operation::accumulate_columns{}, a, b, sums, f);
  }

  /// Computes y = gamma (x - mean) / sqrt(variance + epsilon) + beta for each row. `statistics`
  /// keeps the mean and the inverse standard deviation of each row.
  void layer_norm(auto x, auto gamma, auto beta, auto y, auto statistics, double epsilon) {
    call(operation::layer_norm{}, x, gamma, beta, y, statistics, epsilon);
  }
  /// Computes dx, the gradient of layer_norm with respect to x. dx may be dy.
  void layer_norm_backward_input(auto dy, auto x, auto statistics, auto gamma, auto dx) {
    call(operation::layer_norm_backward_input{}, dy, x, statistics, gamma, dx);
  }
  void layer_norm_backward_parameters(auto dy, auto x, auto statistics, auto dgamma, auto dbeta) {
    call(operation::layer_norm_backward_parameters{}, dy, x, statistics, dgamma, dbeta);
  }
  /// Computes dx and adds the gradients of gamma and beta to dgamma and dbeta. It does so in one
  /// call, so that the device may read dy and x only once. dx may be dy. dx is a view, or the `dx`
  /// that a layer with `takes_sum` received.
  void layer_norm_backward(auto dy, auto x, auto statistics, auto gamma, auto dx, auto dgamma,
                           auto dbeta) {
    using element = typename decltype(x)::element;
    using made = matrix<std::remove_const_t<element>>;
    if constexpr (requires { dx.sum; }) {
      shapes_.equal("layer_norm_backward", named("dx", dx.sum), named("x", x));
      call(operation::layer_norm_backward{}, dy, x, statistics, gamma, dx.of, dgamma, dbeta,
           as_operand<true>(dx.added), as_operand<false>(dx.sum));
    } else {
      call(operation::layer_norm_backward{}, dy, x, statistics, gamma, dx, dgamma, dbeta,
           matrix<typename made::element const>{}, made{});
    }
  }

  /// Computes y = gamma * x * inverse for each row. `inverse` receives 1 / sqrt(mean of the squares
  /// + epsilon) of each row.
  void rms_norm(auto x, auto gamma, auto y, auto inverse, double epsilon) {
    call(operation::rms_norm{}, x, gamma, y, inverse, epsilon);
  }
  /// Computes dx, the gradient of rms_norm with respect to x. dx may be dy.
  void rms_norm_backward_input(auto dy, auto x, auto inverse, auto gamma, auto dx) {
    call(operation::rms_norm_backward_input{}, dy, x, inverse, gamma, dx);
  }
  void rms_norm_backward_parameters(auto dy, auto x, auto inverse, auto dgamma) {
    call(operation::rms_norm_backward_parameters{}, dy, x, inverse, dgamma);
  }

  /// Copies row ids[r] of the table to row r of out, or writes zeros if another rank has row
  /// ids[r].
  void gather_rows(token_input ids, auto table, auto out) {
    call(operation::gather_rows{}, ids, table, out, first_row(table));
  }
  /// Adds row r of dout to row ids[r] of dtable, which is the gradient of gather_rows with respect
  /// to `table`.
  void scatter_add_rows(token_input ids, auto dout, auto dtable) {
    call(operation::scatter_add_rows{}, ids, dout, dtable, first_row(dtable));
  }

  /// Computes y = x + the row of the table for the position of each row of x. The table has a row
  /// for each position of the sequence or, if it is cut by rows like x, for each local position. y
  /// may be x.
  void add_positions(auto x, auto table, auto y) {
    static_assert(
        base::template sound<operation::add_positions, decltype(x), decltype(table), decltype(y)>);
    shapes_.equal("add_positions", named("y", y), named("x", x));
    auto const rows =
        rows_of_table("add_positions", named("table", table), table, named("x", x), x);
    carry_out(queue_, operation::add_positions{}, as_operand<true>(x), as_operand<true>(rows),
              as_operand<false>(y), context.batch);
  }
  void accumulate_positions(auto dy, auto dtable) {
    static_assert(
        base::template sound<operation::accumulate_positions, decltype(dy), decltype(dtable)>);
    auto const rows =
        rows_of_table("accumulate_positions", named("dtable", dtable), dtable, named("dy", dy), dy);
    carry_out(queue_, operation::accumulate_positions{}, as_operand<true>(dy),
              as_operand<false>(rows), context.batch);
  }

  /// Fails to compile, because the layer does not declare that it has a term in the loss; see
  /// term_operations.
  template <class View>
  void add_to_loss(View) {
    static_assert(!std::is_same_v<View, View>,
                  "ops.add_to_loss(terms): this layer is not a loss and does not declare that it "
                  "adds a term to the loss; write `static constexpr bool adds_to_loss = true;`");
  }
  template <class Seed = plait::loss_seed>
  [[nodiscard]] Seed loss_seed() const {
    static_assert(!std::is_same_v<Seed, Seed>,
                  "ops.loss_seed(): this layer is not a loss and does not declare that it adds a "
                  "term to the loss; write `static constexpr bool adds_to_loss = true;`");
    return {};
  }

  /// Computes the greatest value of each row, or of this rank's block of the row if the row is cut.
  /// Columns of the whole row from `valid_columns` on are padding and do not count.
  void row_max(auto x, auto max, std::size_t valid_columns = all_columns) {
    static_assert(base::template sound<operation::row_max, decltype(x), decltype(max)>);
    check_kept("row_max", named("max", max), 1, named("x", x));
    carry_out(queue_, operation::row_max{}, classes_of(x, valid_columns), as_operand<false>(max));
  }
  /// Computes the terms of each row: the sum of exp(logit - max) over the classes, logit - max of
  /// the label's class and, with a smoothed_target, the sum of (logit - max) over the classes.
  /// Logits from column `classes` of the whole row on are padding and do not count.
  ///
  /// Shapes: logits (rows, classes); max (rows, 1); terms (rows, Target::terms), which is 2 or 3.
  template <class Target = one_hot_target>
  void cross_entropy_terms(auto logits, token_input labels, auto max, auto terms,
                           std::size_t classes = all_columns, Target target = {}) {
    static_assert(!is_partial(max.at),
                  "ops.cross_entropy_terms(...): the maximum is still partial; write "
                  "ops.move<plait::invariant>(max) first");
    static_assert(base::template sound<operation::cross_entropy_terms, decltype(logits),
                                       token_input, decltype(max), decltype(terms)>);
    check_terms<Target>("cross_entropy_terms", logits, labels, terms, max);
    carry_out(queue_, operation::cross_entropy_terms{}, classes_of(logits, classes),
              as_operand<true>(labels), as_operand<true>(max), as_operand<false>(terms), target,
              first_column(logits));
  }
  /// Computes row_max and cross_entropy_terms in one call, which may read the logits only once. The
  /// columns of the logits must not be cut, because the terms need the maximum over all ranks.
  template <class Target = one_hot_target>
  void cross_entropy_statistics(auto logits, token_input labels, auto max, auto terms,
                                std::size_t classes = all_columns, Target target = {}) {
    static_assert(!typing::is_columns(logits.at),
                  "ops.cross_entropy_statistics(...): the logits are cut by columns; write "
                  "ops.row_max, ops.move<plait::invariant>(max) and ops.cross_entropy_terms");
    static_assert(base::template sound<operation::cross_entropy_statistics, decltype(logits),
                                       token_input, decltype(max), decltype(terms)>);
    check_terms<Target>("cross_entropy_statistics", logits, labels, terms, max);
    carry_out(queue_, operation::cross_entropy_statistics{}, classes_of(logits, classes),
              as_operand<true>(labels), as_operand<false>(max), as_operand<false>(terms), target);
  }
  /// Adds to the loss the sum over all rows of scale * weight * -log(probability of the label).
  template <class Target = one_hot_target>
  void cross_entropy(auto terms, token_input labels, std::int32_t ignored, loss_sum loss,
                     Target target = {}) {
    static_assert(
        !is_partial(terms.at),
        "ops.cross_entropy(terms, ...): the terms are partial (a sum still to be made), and their "
        "logarithm would be wrong; write ops.move<plait::invariant>(terms) first");
    static_assert(
        is_whole(terms.at) || is_partial(terms.at),
        "ops.cross_entropy(terms, ...): the tensor ranks have parts of the terms, and each would "
        "add its part of the loss alone; use a form whose output is invariant");
    check_kept("cross_entropy", named("terms", terms), Target::terms, named("labels", labels));
    carry_out(queue_, operation::cross_entropy_sum{}, as_operand<true>(terms),
              as_operand<true>(labels), row_of(loss.scale), row_of(loss.weights, terms.rows),
              row_of(loss.data), target, ignored);
  }
  /// Computes the gradient of cross_entropy with respect to the logits. dlogits may be logits. From
  /// column `classes` of the whole row on, the gradient is 0.
  template <class Target = one_hot_target>
  void cross_entropy_backward(auto logits, token_input labels, auto max, auto terms,
                              std::int32_t ignored, plait::loss_seed seed, auto dlogits,
                              std::size_t classes = all_columns, Target target = {}) {
    static_assert(typing::sound_gradient<logits.at, dlogits.at>);
    static_assert(logits.at != replicate,
                  "ops.cross_entropy_backward(...): the logits are replicate, so dlogits would be "
                  "partial, and every rank would add the whole gradient to it; use a form whose "
                  "input is invariant or cut by features");
    static_assert(!is_partial(terms.at) && !is_partial(max.at),
                  "ops.cross_entropy_backward(...): the maximum and the terms are still partial; "
                  "pass the results of ops.move<plait::invariant> in the forward");
    static_assert(
        base::template sound<operation::cross_entropy_backward, decltype(logits), token_input,
                             decltype(max), decltype(terms), matrix<double const>,
                             matrix<double const>, decltype(dlogits)>);
    constexpr auto name = "cross_entropy_backward";
    check_terms<Target>(name, logits, labels, terms, max);
    shapes_.equal(name, named("dlogits", dlogits), named("logits", logits));
    carry_out(queue_, operation::cross_entropy_backward{}, classes_of(logits, classes),
              as_operand<true>(labels), as_operand<true>(max), as_operand<true>(terms),
              row_of(seed.scale), row_of(seed.weights, logits.rows), as_operand<false>(dlogits),
              target, ignored, first_column(logits));
  }

  /// Applies dropout: y = 0 with the given probability, and y = x / (1 - probability) otherwise.
  /// The random number of an element depends on its global index, so it does not depend on the
  /// plan. For the backward, call the same function with dy as x and dx as y. In evaluation y = x.
  /// y may be x. `width` is the number of columns of a whole row, of which x may have a block.
  void dropout(auto x, auto y, double probability, std::size_t width) {
    constexpr auto name = "dropout";
    named_shape const like = named("x", x);
    shapes_.whole_positions(name, like, positions(x), context.batch);
    shapes_.expect(name, named_shape{"a row of `width`", 1, width}, 1, whole_columns(x), like);
    if (!context.training) return this->copy(x, y);
    dropout_block const block{context.batch,   first_position(x), context.first_sample,
                              first_column(x), context.sequence,  width};
    call(operation::dropout{}, x, y, dropout_key{context.seed, context.site, context.step},
         probability, block);
  }

  /// Returns the view `result` of a reduction over the columns of x, with the placement that the
  /// result has before ranks exchange anything: `Cut` if the columns of x are cut, and otherwise
  /// the placement of x.
  template <placement Cut, class View, class T, placement At>
  [[nodiscard]] auto over_columns(View const&, view_of<T, At> result) const {
    constexpr placement at = typing::is_columns(View::at) ? Cut : View::at;
    return view_of<T, at>{result.data, result.rows, result.columns};
  }

  /// Fails to compile, because the form does not list a sum for this body; see summing_operations.
  template <class X>
  void sum_over_samples(X) {
    static_assert(sizeof(X) == 0,
                  "ops.sum_over_samples(x): the form of this layer lists no sum for this body, so "
                  "the plan does not know the bytes that it sends; list ext::batch_sum<At, Width> "
                  "in the form for each sum of the forward, and ext::batch_sum<At, Width, "
                  "ext::layer_body::backward_input> for each of the backward");
  }

  /// Returns x in another placement, without copying it. This overload compiles only if the move
  /// sends nothing. The overload in listed_operations makes the moves that a form lists.
  template <placement To, class T, placement From>
  view_of<T, To> move(view_of<T, From> x) {
    static_assert(
        !typing::moves_values<From, To>(),
        "ops.move<To>(x): the form lists no move of backward_input, and backward_parameters may "
        "send nothing; move x in the forward and save the result, or list inner<From, To, Width, "
        "slot_element::accumulate, ext::layer_body::backward_input> in the form");
    return {x.data, x.rows, x.columns};
  }

 protected:
  /// Carries out move `number` of a body, which is a reduction over the tensor axis.
  template <placement To, class T, placement From>
  void reduce_in_place(view_of<T, From> x, int number) {
    reduce_over<From, To>(within_layers, rank_.tensor_group(), std::span<T>(x.data, x.count()),
                          number);
  }

  /// Sums x over the ranks that hold different samples, this rank included. `number`: the index of
  /// this sum among the sums that the form lists for the body.
  template <class T>
  void sum_in_place(std::span<T> x, int number) {
    if (this->context.sample_axes.empty()) return;
    auto const over = this->context.sample_axes;
    reduce_over<partial, invariant>(stream_of(over), rank_.group(over), x, number);
  }

  /// Returns how many columns of this rank's block come before column `end` of the whole row.
  template <class View>
  [[nodiscard]] std::size_t local_columns(View const& x, std::size_t end) const {
    std::size_t const first = first_column(x);
    return end <= first ? 0 : std::min(end - first, x.columns);
  }

  /// Returns the part of the logits whose columns are classes; the other columns are padding.
  template <class View>
  [[nodiscard]] auto classes_of(View const& logits, std::size_t classes) const {
    return matrix<typename View::element const>{logits.data, logits.rows,
                                                local_columns(logits, classes), logits.columns};
  }
  /// Checks the shapes of the labels, and of the numbers that a cross-entropy keeps for each row.
  template <class Target, class Logits, class Terms, class... Max>
  void check_terms(char const* operation, Logits const& logits, token_input labels,
                   Terms const& terms, Max const&... max) const {
    named_shape const like = named("logits", logits);
    check_kept(operation, named("labels", labels), 1, like);
    (check_kept(operation, named("max", max), 1, like), ...);
    check_kept(operation, named("terms", terms), Target::terms, like);
  }

  /// Checks that an operand has `count` numbers for each row of a matrix.
  void check_kept(char const* operation, named_shape kept, std::size_t count,
                  named_shape matrix) const {
    shapes_.expect(operation, kept, matrix.rows, count, matrix);
  }

  using base::call, base::named, base::queue_, base::rank, base::shapes_;

 private:
  /// Carries out, in place and on stream `on`, the reduction that the form lists with index
  /// `number`. Stream `on` waits for stream::compute before the reduction, and stream::compute
  /// waits for stream `on` after the reduction.
  template <placement From, placement To, class Comm, class T>
  void reduce_over(stream on, Comm& group, std::span<T> x, int number) {
    rank_.wait_across(on, {wait_site::part::layer, leaf_, 2 * number},
                      [&] { move_in_place<From, To>(group, x); });
  }

  /// Returns true at the first call with the gradient that was passed to begin_by_product, and
  /// false at all other calls.
  bool begins(void const* out) {
    bool const is_that_one = out == not_begun_;
    if (is_that_one) not_begun_ = nullptr;
    return is_that_one;
  }

  /// Returns the number of columns that a whole row of x has, over all tensor ranks.
  template <class View>
  [[nodiscard]] std::size_t whole_columns(View const& x) const {
    return x.columns *
           (typing::is_columns(View::at) ? static_cast<std::size_t>(context.tensor_ranks) : 1);
  }

  /// Checks the shape of a vector that is added to each row of a matrix, or that is a sum of the
  /// rows.
  void check_row(char const* operation, named_shape row, named_shape matrix) const {
    shapes_.expect(operation, row, 1, matrix.columns, matrix);
  }
  template <class A, class B, class T, placement Out, class... Then>
  void product(char const* name, A const& a, B const& b, view_of<T, Out> out, Then const&... then) {
    using left = operand<A>;
    using right = operand<B>;
    static_assert(typing::sound_product<left::at, right::at, Out>);
    auto const& x = left::of(a);
    auto const& y = right::of(b);
    shapes_.product(name, left::is_transposed, named("a", x), right::is_transposed, named("b", y),
                    named("out", out));
    using element = typename operand<A>::element;
    carry_out(queue_, operation::matmul{}, matrix<element const>{x.data, x.rows, x.columns},
              matrix<element const>{y.data, y.rows, y.columns},
              matrix<T>{out.data, out.rows, out.columns},
              transposes{left::is_transposed, right::is_transposed}, then...);
  }

  template <class View, class Function, class Kept>
  auto epilogue_of(char const* operation, typename View::element const* row,
                   mapped_view<View, Function, Kept> const& out) const {
    named_shape const like = named("out", out.of);
    shapes_.equal(operation, named("out.mapped", out.mapped), like);
    epilogue<typename View::element, Function> then{
        .row = row, .f = out.f, .mapped = out.mapped.data};
    if constexpr (std::is_void_v<Kept>) {
      static_assert(typing::sound_map<typing::linearity_of<Function>, View::at, View::at>);
    } else {
      static_assert(
          typing::sound_map<typing::linearity_of<Function>, View::at, Kept::at, View::at>);
      shapes_.equal(operation, named("out.kept", out.kept), like);
      then.kept = out.kept.data;
    }
    return then;
  }

  template <class View>
  auto epilogue_of(char const* operation, typename View::element const* row,
                   summed_view<View> const& out) const {
    shapes_.equal(operation, named("out.added", out.added), named("out", out.sum));
    return epilogue<typename View::element>{.row = row, .added = out.added.data};
  }

  /// Returns the rows of a table, or of its gradient, that belong to the positions of x.
  template <class Table, class View>
  [[nodiscard]] Table rows_of_table(char const* name, named_shape of_table, Table const& table,
                                    named_shape of_x, View const& x) const {
    bool const is_cut_alike = typing::is_rows(View::at) && View::at == Table::at;
    std::size_t const first = is_cut_alike ? 0 : first_position(x), count = positions(x);
    shapes_.table(name, of_table, first, of_x, count, context.batch);
    return {table.data + first * table.columns, count, table.columns};
  }

  Rank& rank_;
  int leaf_;
  void const* not_begun_ = nullptr;
};

}  // namespace plait::execution

namespace plait::ext {

using execution::operations;

}  // namespace plait::ext
