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
#include "plait/core/namespaces.hpp"
#include "plait/core/precision.hpp"
#include "plait/layer/typing.hpp"
#include "plait/plan/synchronization.hpp"
#include "plait/run/context.hpp"
#include "plait/run/image_operations.hpp"
#include "plait/run/move.hpp"
#include "plait/run/operands.hpp"
#include "plait/run/shapes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// What a layer's body may do with its views. Each operation checks at compile time that the
/// placements of its operands allow it, then that their shapes fit, and runs on the device. What is
/// only read may be a view of const elements or of others.
///
/// Names ending in `_backward...` compute gradients; those that take sums add to them.
/// Shapes: views are matrices (rows, columns); the rows of activations are positions times samples.
/// Errors: a wrong combination of placements does not compile; a wrong one of shapes is
///         size_mismatch, before anything is read or written.
template <class Rank>
class operations : public image_operations<Rank> {
  using base = image_operations<Rank>;
  using memory = typename Rank::device_type::memory;
  template <class T, placement At>
  using view_of = view<T, At, memory>;
  using token_input = token_view<memory>;

 public:
  /// A row without padding.
  static constexpr std::size_t all_columns = std::numeric_limits<std::size_t>::max();

  /// For the body of layer `leaf` of the plan, on stream compute; `body` says for messages which it
  /// is ("mlp.c_fc backward").
  operations(Rank& on, layer_context const& where, int leaf, char const* body = "")
      : base(on, where, leaf, body), rank_(on), leaf_(leaf) {}

  using base::context;
  using base::first_column;
  using base::first_position;
  using base::first_row;
  using base::positions;

  /// out = a b. Write transposed(a) for the transpose of a. `out` is a view, or y or dx as a layer
  /// with `takes_epilogue` got it.
  template <class A, class B, class Out>
  void matmul(A a, B b, Out out) {
    constexpr auto name = "matmul";
    auto const& y = written_view(out);
    if constexpr (requires { out.of; })
      product(name, a, b, y, y.data, epilogue_of(name, nullptr, out));
    else product(name, a, b, y, false, y.data, y.columns);
  }
  /// out = a b + row, on each row of a b.
  template <class A, class B, class T, placement Row, class Out>
  void matmul_add_row(A a, B b, view_of<T, Row> row, Out out) {
    constexpr auto name = "matmul_add_row";
    static_assert(typing::sound_add_row<Out::at, Row>);
    auto const& y = written_view(out);
    check_row(name, named("row", row), named("out", y));
    if constexpr (requires { out.of; })
      product(name, a, b, y, y.data, epilogue_of(name, row.data, out));
    else product(name, a, b, y, y.data, epilogue<std::remove_const_t<T>>{.row = row.data});
  }
  /// out += a b; for gradients of parameters.
  template <class A, class B, class T, placement Out>
  void accumulate_matmul(A a, B b, view_of<T, Out> out) {
    product("accumulate_matmul", a, b, out, !begins(out.data), out.data, out.columns);
  }
  /// The gradients of matmul_add_row(x, w, row, y) by w and by the row: dw += transposed(x) dy, and
  /// drow += the sum of the rows of dy. Write transposed(dw) if w was given transposed.
  template <class X, class T, placement At, class W, class Sum, placement Row>
  void matmul_add_row_backward_parameters(X x, view_of<T, At> dy, W dw, view_of<Sum, Row> drow) {
    static_assert(typing::sound_column_sums<At, Row>);
    constexpr auto name = "matmul_add_row_backward_parameters";
    check_row(name, named("drow", drow), named("dy", dy));
    constexpr bool swapped = operand<W>::is_transposed;
    auto const& out = operand<W>::of(dw);
    operand_sums<Sum> const sums{drow.data, swapped};
    if constexpr (swapped) product(name, transposed(dy), x, out, !begins(out.data), out.data, sums);
    else product(name, transposed(x), dy, out, !begins(out.data), out.data, sums);
  }
  /// The next product that adds to `gradient` begins it: what lies there is of another step.
  void begin_by_product(void const* gradient) { not_begun_ = gradient; }
  /// Errors: plait::error if the body has not made that product.
  void require_begun() const {
    if (not_begun_ != nullptr) shapes_.fail_not_begun();
  }

  /// y += row, on each row of y.
  template <class R, class T, placement Row, placement At>
  void add_row(view_of<R, Row> row, view_of<T, At> y) {
    static_assert(typing::sound_add_row<At, Row>);
    static_assert(typing::sound_written<T>);
    check_row("add_row", named("row", row), named("y", y));
    queue_.add_row(row.data, y.data, y.rows, y.columns);
  }
  /// sums += the sum of the rows of dy: the gradient of add_row by its row.
  template <class T, class Sum, placement At, placement Sums>
  void accumulate_column_sums(view_of<T, At> dy, view_of<Sum, Sums> sums) {
    static_assert(typing::sound_column_sums<At, Sums>);
    check_row("accumulate_column_sums", named("sums", sums), named("dy", dy));
    queue_.accumulate_column_sums(dy.data, sums.data, dy.rows, dy.columns);
  }
  /// sums[c] += the sum over the rows r of f(a[r][c], b[r][c]).
  template <class Function, class X, class Y, class T, placement A, placement B, placement Sums>
  void accumulate_columns(Function f, view_of<X, A> a, view_of<Y, B> b, view_of<T, Sums> sums) {
    static_assert(typing::sound_columns<A, B, Sums>);
    constexpr auto name = "accumulate_columns";
    shapes_.equal(name, named("b", b), named("a", a));
    check_row(name, named("sums", sums), named("a", a));
    queue_.accumulate_columns(f, a.rows, a.columns, sums.data, a.data, b.data);
  }

  /// y = gamma (x - mean) / sqrt(variance + epsilon) + beta for each row; statistics holds the mean
  /// and the inverse deviation of each row.
  template <class X, class G, class B, class T, class Kept, placement At, placement Shared>
  void layer_norm(view_of<X, At> x, view_of<G, Shared> gamma, view_of<B, Shared> beta,
                  view_of<T, At> y, view_of<Kept, At> statistics, double epsilon) {
    static_assert(typing::sound_row_operation<At, Shared>);
    constexpr auto name = "layer_norm";
    named_shape const like = named("x", x);
    check_row(name, named("gamma", gamma), like);
    check_row(name, named("beta", beta), like);
    shapes_.equal(name, named("y", y), like);
    check_kept(name, named("statistics", statistics), 2, like);
    queue_.layer_norm(x.data, gamma.data, beta.data, y.data, statistics.data, x.rows, x.columns,
                      epsilon);
  }
  /// dx may be dy.
  template <class Dy, class X, class Kept, class G, class T, placement At, placement Gradient,
            placement Shared>
  void layer_norm_backward_input(view_of<Dy, Gradient> dy, view_of<X, At> x,
                                 view_of<Kept, At> statistics, view_of<G, Shared> gamma,
                                 view_of<T, Gradient> dx) {
    static_assert(typing::sound_row_operation<At, Shared>);
    constexpr auto name = "layer_norm_backward_input";
    named_shape const like = named("x", x);
    shapes_.equal(name, named("dy", dy), like);
    check_kept(name, named("statistics", statistics), 2, like);
    check_row(name, named("gamma", gamma), like);
    shapes_.equal(name, named("dx", dx), like);
    queue_.layer_norm_backward_input(dy.data, x.data, statistics.data, gamma.data, dx.data, x.rows,
                                     x.columns);
  }
  template <class Dy, class X, class Kept, class Sum, placement At, placement Gradient,
            placement Sums>
  void layer_norm_backward_parameters(view_of<Dy, Gradient> dy, view_of<X, At> x,
                                      view_of<Kept, At> statistics, view_of<Sum, Sums> dgamma,
                                      view_of<Sum, Sums> dbeta) {
    static_assert(typing::sound_column_sums<Gradient, Sums>);
    constexpr auto name = "layer_norm_backward_parameters";
    named_shape const like = named("x", x);
    shapes_.equal(name, named("dy", dy), like);
    check_kept(name, named("statistics", statistics), 2, like);
    check_row(name, named("dgamma", dgamma), like);
    check_row(name, named("dbeta", dbeta), like);
    queue_.layer_norm_backward_parameters(dy.data, x.data, statistics.data, dgamma.data, dbeta.data,
                                          x.rows, x.columns);
  }

  /// Both gradients in one call, which may read dy and x once. dx may be dy; it is a view, or dx as
  /// a layer with `takes_sum` got it.
  template <class Dy, class X, class Kept, class G, class Dx, class Sum, placement At,
            placement Gradient, placement Shared, placement Sums>
  void layer_norm_backward(view_of<Dy, Gradient> dy, view_of<X, At> x, view_of<Kept, At> statistics,
                           view_of<G, Shared> gamma, Dx dx, view_of<Sum, Sums> dgamma,
                           view_of<Sum, Sums> dbeta) {
    static_assert(typing::sound_row_operation<At, Shared>);
    static_assert(typing::sound_column_sums<Gradient, Sums>);
    static_assert(Dx::at == Gradient,
                  "ops.layer_norm_backward(...): dx is not placed like dy; correct the form");
    constexpr auto name = "layer_norm_backward";
    named_shape const like = named("x", x);
    shapes_.equal(name, named("dy", dy), like);
    check_kept(name, named("statistics", statistics), 2, like);
    check_row(name, named("gamma", gamma), like);
    check_row(name, named("dgamma", dgamma), like);
    check_row(name, named("dbeta", dbeta), like);
    if constexpr (requires { dx.sum; }) {
      shapes_.equal(name, named("dx", dx.sum), like);
      queue_.layer_norm_backward(dy.data, x.data, statistics.data, gamma.data, dx.of.data,
                                 dgamma.data, dbeta.data, x.rows, x.columns, dx.added.data,
                                 dx.sum.data);
    } else {
      shapes_.equal(name, named("dx", dx), like);
      queue_.layer_norm_backward(dy.data, x.data, statistics.data, gamma.data, dx.data, dgamma.data,
                                 dbeta.data, x.rows, x.columns);
    }
  }

  /// y = gamma x inverse for each row, where `inverse` is 1 / sqrt(mean of the squares + epsilon)
  /// of the row and is kept.
  template <class X, class G, class T, class Kept, placement At, placement Shared>
  void rms_norm(view_of<X, At> x, view_of<G, Shared> gamma, view_of<T, At> y,
                view_of<Kept, At> inverse, double epsilon) {
    static_assert(typing::sound_row_operation<At, Shared>);
    constexpr auto name = "rms_norm";
    named_shape const like = named("x", x);
    check_row(name, named("gamma", gamma), like);
    shapes_.equal(name, named("y", y), like);
    check_kept(name, named("inverse", inverse), 1, like);
    queue_.rms_norm(x.data, gamma.data, y.data, inverse.data, x.rows, x.columns, epsilon);
  }
  /// dx may be dy.
  template <class Dy, class X, class Kept, class G, class T, placement At, placement Gradient,
            placement Shared>
  void rms_norm_backward_input(view_of<Dy, Gradient> dy, view_of<X, At> x,
                               view_of<Kept, At> inverse, view_of<G, Shared> gamma,
                               view_of<T, Gradient> dx) {
    static_assert(typing::sound_row_operation<At, Shared>);
    constexpr auto name = "rms_norm_backward_input";
    named_shape const like = named("x", x);
    shapes_.equal(name, named("dy", dy), like);
    check_kept(name, named("inverse", inverse), 1, like);
    check_row(name, named("gamma", gamma), like);
    shapes_.equal(name, named("dx", dx), like);
    queue_.rms_norm_backward_input(dy.data, x.data, inverse.data, gamma.data, dx.data, x.rows,
                                   x.columns);
  }
  template <class Dy, class X, class Kept, class Sum, placement At, placement Gradient,
            placement Sums>
  void rms_norm_backward_parameters(view_of<Dy, Gradient> dy, view_of<X, At> x,
                                    view_of<Kept, At> inverse, view_of<Sum, Sums> dgamma) {
    static_assert(typing::sound_column_sums<Gradient, Sums>);
    constexpr auto name = "rms_norm_backward_parameters";
    named_shape const like = named("x", x);
    shapes_.equal(name, named("dy", dy), like);
    check_kept(name, named("inverse", inverse), 1, like);
    check_row(name, named("dgamma", dgamma), like);
    queue_.rms_norm_backward_parameters(dy.data, x.data, inverse.data, dgamma.data, x.rows,
                                        x.columns);
  }

  /// Row r of out is row ids[r] of the table; zeros where another rank has that row.
  template <class X, class T, placement Table, placement Out>
  void gather_rows(token_input ids, view_of<X, Table> table, view_of<T, Out> out) {
    static_assert(typing::sound_lookup<Table, Out>);
    named_shape const of_out = named("out", out);
    shapes_.expect("gather_rows", of_out, ids.rows, out.columns, named("ids", ids));
    shapes_.expect("gather_rows", of_out, out.rows, table.columns, named("table", table));
    queue_.gather_rows(ids.data, table.data, first_row(table), table.rows, out.data, out.rows,
                       out.columns);
  }
  /// Row ids[r] of sums += row r of dy: the gradient of gather_rows by its table.
  template <class T, class Sum, placement Gradient, placement Sums>
  void scatter_add_rows(token_input ids, view_of<T, Gradient> dy, view_of<Sum, Sums> sums) {
    static_assert(typing::sound_lookup_gradient<Gradient, Sums>);
    named_shape const of_dy = named("dy", dy);
    shapes_.expect("scatter_add_rows", of_dy, ids.rows, dy.columns, named("ids", ids));
    shapes_.expect("scatter_add_rows", of_dy, dy.rows, sums.columns, named("sums", sums));
    queue_.scatter_add_rows(ids.data, dy.data, first_row(sums), sums.rows, sums.data, dy.rows,
                            dy.columns);
  }

  /// y = x + the table's row for the position of each row. The table has all positions, or, cut by
  /// rows like x, the local ones. y may be x.
  template <class X, class W, class T, placement At, placement Table>
  void add_positions(view_of<X, At> x, view_of<W, Table> table, view_of<T, At> y) {
    static_assert(typing::sound_positions<At, Table>,
                  "ops.add_positions(x, table, y): this table cannot be added to this x; cut both "
                  "alike, or use the table as replicate where x is cut by positions");
    constexpr auto name = "add_positions";
    std::size_t const first = first_table_row<At, Table>(x), count = positions(x);
    named_shape const of_x = named("x", x);
    shapes_.equal(name, named("y", y), of_x);
    shapes_.table(name, named("table", table), first, of_x, count, context.batch);
    queue_.add_positions(x.data, table.data, y.data, first, count, context.batch, x.columns);
  }
  template <class T, class Sum, placement At, placement Sums>
  void accumulate_positions(view_of<T, At> dy, view_of<Sum, Sums> sums) {
    static_assert(
        typing::sound_position_sums<At, Sums>,
        "ops.accumulate_positions(dy, sums): the sums of a dy placed At are not placed "
        "Sums, as the form promises for this gradient; correct the use<...> of the table");
    std::size_t const first = first_table_row<At, Sums>(dy), count = positions(dy);
    shapes_.table("accumulate_positions", named("sums", sums), first, named("dy", dy), count,
                  context.batch);
    queue_.accumulate_positions(dy.data, sums.data, first, count, context.batch, dy.columns);
  }

  /// \see term_operations, which layers get that have a term in the loss
  template <class View>
  void add_to_loss(View) {
    static_assert(!std::is_same_v<View, View>,
                  "ops.add_to_loss(terms): this layer is no loss and does not say that it has a "
                  "term in the loss; write `static constexpr bool adds_to_loss = true;`");
  }
  template <class Seed = plait::loss_seed>
  [[nodiscard]] Seed loss_seed() const {
    static_assert(!std::is_same_v<Seed, Seed>,
                  "ops.loss_seed(): this layer is no loss and does not say that it has a term in "
                  "the loss; write `static constexpr bool adds_to_loss = true;`");
    return {};
  }

  /// The greatest value of each row; of what this rank has of the row if it is cut. The columns
  /// from `valid_columns` of the whole row on are padding and do not count.
  template <class T, class Kept, placement At, placement Max>
  void row_max(view_of<T, At> x, view_of<Kept, Max> max, std::size_t valid_columns = all_columns) {
    static_assert(typing::sound_logits<At>);
    static_assert(typing::is_columns(At) ? Max == partial_max : Max == At,
                  "ops.row_max(x, max): the maximum over cut columns is partial_max, otherwise "
                  "placed like x; write ops.over_columns<plait::partial_max>(x, max)");
    check_kept("row_max", named("max", max), 1, named("x", x));
    queue_.row_max(x.data, max.data, x.rows, x.columns, local_columns(x, valid_columns));
  }
  /// For each row: the sum of exp(logit - max), and logit - max of the label; with a
  /// smoothed_target the sum of (logit - max) too. Logits from column `classes` of the whole row on
  /// are padding and do not count.
  ///
  /// Shapes: logits (rows, classes); max (rows, 1); terms (rows, Target::terms), which are 2 or 3.
  template <class T, class M, class Kept, placement At, placement Max, placement Terms,
            class Target = one_hot_target>
  void cross_entropy_terms(view_of<T, At> logits, token_input labels, view_of<M, Max> max,
                           view_of<Kept, Terms> terms, std::size_t classes = all_columns,
                           Target target = {}) {
    static_assert(typing::sound_logits<At>);
    static_assert(!is_partial(Max),
                  "ops.cross_entropy_terms(...): the maximum is still partial; write "
                  "ops.move<plait::invariant>(max) first");
    static_assert(typing::is_columns(At) ? Terms == partial : Terms == At,
                  "ops.cross_entropy_terms(...): the sums over cut columns are partial, otherwise "
                  "placed like the logits; write ops.over_columns<plait::partial>(logits, terms)");
    constexpr auto name = "cross_entropy_terms";
    named_shape const like = named("logits", logits);
    check_kept(name, named("labels", labels), 1, like);
    check_kept(name, named("max", max), 1, like);
    check_kept(name, named("terms", terms), Target::terms, like);
    queue_.cross_entropy_terms(target, logits.data, labels.data, max.data, terms.data,
                               first_column(logits), logits.rows, logits.columns,
                               local_columns(logits, classes));
  }
  /// row_max and cross_entropy_terms in one call, which may read the logits once: for logits whose
  /// columns are not cut, as the terms of others need the maximum of all ranks.
  template <class T, class Kept, placement At, placement Row, class Target = one_hot_target>
  void cross_entropy_statistics(view_of<T, At> logits, token_input labels, view_of<Kept, Row> max,
                                view_of<Kept, Row> terms, std::size_t classes = all_columns,
                                Target target = {}) {
    static_assert(typing::sound_logits<At>);
    static_assert(
        Row == At && !typing::is_columns(At),
        "ops.cross_entropy_statistics(...): the logits are cut by columns, or the maximum "
        "and the terms are not placed like them; write ops.row_max, "
        "ops.move<plait::invariant>(max) and ops.cross_entropy_terms");
    constexpr auto name = "cross_entropy_statistics";
    named_shape const like = named("logits", logits);
    check_kept(name, named("labels", labels), 1, like);
    check_kept(name, named("max", max), 1, like);
    check_kept(name, named("terms", terms), Target::terms, like);
    queue_.cross_entropy_statistics(target, logits.data, labels.data, max.data, terms.data,
                                    logits.rows, logits.columns, local_columns(logits, classes));
  }
  /// loss += scale * the sum over the rows of weight * -log(probability of the label).
  template <class T, placement Terms, class Target = one_hot_target>
  void cross_entropy(view_of<T, Terms> terms, token_input labels, std::int32_t ignored,
                     loss_sum loss, Target target = {}) {
    static_assert(!is_partial(Terms),
                  "ops.cross_entropy(terms, ...): the logarithm of a partial sum; write "
                  "ops.move<plait::invariant>(terms) first");
    static_assert(is_whole(Terms) || is_partial(Terms),
                  "ops.cross_entropy(terms, ...): the tensor ranks have parts of the terms, and "
                  "each would add its part of the loss alone; give the form an output that is "
                  "invariant");
    check_kept("cross_entropy", named("terms", terms), Target::terms, named("labels", labels));
    queue_.cross_entropy_sum(target, terms.data, labels.data, ignored, terms.rows, loss.scale,
                             loss.weights, loss.data);
  }
  /// dlogits may be logits; it is 0 from column `classes` of the whole row on.
  template <class X, class M, class Kept, class T, placement At, placement Row, placement Gradient,
            class Target = one_hot_target>
  void cross_entropy_backward(view_of<X, At> logits, token_input labels, view_of<M, Row> max,
                              view_of<Kept, Row> terms, std::int32_t ignored, plait::loss_seed seed,
                              view_of<T, Gradient> dlogits, std::size_t classes = all_columns,
                              Target target = {}) {
    static_assert(typing::sound_logits<At>);
    static_assert(typing::sound_gradient<At, Gradient>);
    static_assert(At != replicate,
                  "ops.cross_entropy_backward(...): the logits are replicate, so dlogits would be "
                  "partial, and every rank would add the whole gradient to it; give the form an "
                  "input that is invariant or cut by features");
    static_assert(!is_partial(Row),
                  "ops.cross_entropy_backward(...): the maximum and the terms are still partial; "
                  "give it what the forward made of them with ops.move<plait::invariant>");
    constexpr auto name = "cross_entropy_backward";
    named_shape const like = named("logits", logits);
    check_kept(name, named("labels", labels), 1, like);
    check_kept(name, named("max", max), 1, like);
    check_kept(name, named("terms", terms), Target::terms, like);
    shapes_.equal(name, named("dlogits", dlogits), like);
    queue_.cross_entropy_backward(target, logits.data, labels.data, max.data, terms.data,
                                  seed.scale, seed.weights, dlogits.data, first_column(logits),
                                  ignored, logits.rows, logits.columns,
                                  local_columns(logits, classes));
  }

  /// y = x / (1 - probability) where random number (global index) keeps the element, else 0; with
  /// gradients for x and y it is its own backward. In evaluation y = x. y may be x. `width` is that
  /// of a whole row, of which x may have a block.
  template <class T, placement At>
  void dropout(view_of<T, At> x, view_of<std::remove_const_t<T>, At> y, double probability,
               std::size_t width) {
    constexpr auto name = "dropout";
    named_shape const like = named("x", x);
    shapes_.equal(name, named("y", y), like);
    shapes_.whole_positions(name, like, positions(x), context.batch);
    shapes_.expect(name, named_shape{"a row of `width`", 1, width}, 1, whole_columns(x), like);
    if (!context.training) return queue_.copy_bytes(x.data, y.data, x.count() * sizeof(T));
    dropout_block const block{context.batch,   first_position(x), context.first_sample,
                              first_column(x), context.sequence,  width};
    queue_.dropout(x.data, y.data, x.rows, x.columns,
                   dropout_key{context.seed, context.site, context.step}, probability, block);
  }

  /// `result` as what a reduction over the columns of x gives before any exchange: `Cut` if the
  /// columns of x are cut, else placed like x.
  template <placement Cut, class View, class T, placement At>
  [[nodiscard]] auto over_columns(View const&, view_of<T, At> result) const {
    constexpr placement at = typing::is_columns(View::at) ? Cut : View::at;
    return view_of<T, at>{result.data, result.rows, result.columns};
  }

  /// \see summing_operations::sum_over_samples
  template <class X>
  void sum_over_samples(X) {
    static_assert(sizeof(X) == 0,
                  "ops.sum_over_samples(x): the form of this layer lists no sum for this body, so "
                  "the plan knows nothing of what it sends; write ext::batch_sum<At, Width> into "
                  "the form for each sum of the forward, and ext::batch_sum<At, Width, "
                  "ext::layer_body::backward_input> for each of the backward");
  }

  /// The same values in another placement, in place, where nothing has to be sent for it; what the
  /// forward of a layer may send is in forward_operations.
  template <placement To, class T, placement From>
  view_of<T, To> move(view_of<T, From> x) {
    static_assert(!typing::moves_values<From, To>(),
                  "ops.move<To>(x): only the forward of a layer may send this to other ranks, as "
                  "no clause of a form lists a move in a backward; move it in the forward and save "
                  "it, or give the form placements that need no sum here");
    return {x.data, x.rows, x.columns};
  }

 protected:
  /// Carries out move `number` of a body, which reduces.
  template <placement To, class T, placement From>
  void reduce_in_place(view_of<T, From> x, int number) {
    reduce_over<From, To>(within_layers, rank_.tensor_group(), std::span<T>(x.data, x.count()),
                          number);
  }

  /// Adds up what the ranks that have other samples give to sum `number` of a body.
  template <class T>
  void sum_in_place(std::span<T> x, int number) {
    if (this->context.sample_axes.empty()) return;
    auto const over = this->context.sample_axes;
    reduce_over<partial, invariant>(stream_of(over), rank_.group(over), x, number);
  }

  /// How many columns of the local block lie before column `end` of the whole row.
  template <class View>
  [[nodiscard]] std::size_t local_columns(View const& x, std::size_t end) const {
    std::size_t const first = first_column(x);
    return end <= first ? 0 : std::min(end - first, x.columns);
  }

  /// `count` numbers for each row of a matrix.
  void check_kept(char const* operation, named_shape kept, std::size_t count,
                  named_shape matrix) const {
    shapes_.expect(operation, kept, matrix.rows, count, matrix);
  }

  using base::named, base::queue_, base::rank, base::shapes_;

 private:
  /// Row `number` of what a form lists, in place, beside stream compute.
  template <placement From, placement To, class Comm, class T>
  void reduce_over(stream on, Comm& group, std::span<T> x, int number) {
    rank_.wait_across(on, {wait_site::part::layer, leaf_, 2 * number},
                      [&] { move_in_place<From, To>(group, x); });
  }

  /// Returns true for the product that begin_by_product speaks of, once.
  bool begins(void const* out) {
    bool const is_that_one = out == not_begun_;
    if (is_that_one) not_begun_ = nullptr;
    return is_that_one;
  }

  /// The columns of the whole row.
  template <class View>
  [[nodiscard]] std::size_t whole_columns(View const& x) const {
    return x.columns *
           (typing::is_columns(View::at) ? static_cast<std::size_t>(context.tensor_ranks) : 1);
  }

  /// A vector for each row of a matrix, or the sum over its rows.
  void check_row(char const* operation, named_shape row, named_shape matrix) const {
    shapes_.expect(operation, row, 1, matrix.columns, matrix);
  }
  template <class A, class B, class T, placement Out, class... Result>
  void product(char const* operation, A const& a, B const& b, view_of<T, Out> out,
               Result... result) {
    using left = operand<A>;
    using right = operand<B>;
    static_assert(typing::sound_product<left::at, right::at, Out>);
    auto const& x = left::of(a);
    auto const& y = right::of(b);
    shapes_.product(operation, left::is_transposed, named("a", x), right::is_transposed,
                    named("b", y), named("out", out));
    std::size_t const inner = left::is_transposed ? x.rows : x.columns;
    queue_.matmul(left::is_transposed, right::is_transposed, out.rows, out.columns, inner, x.data,
                  x.columns, y.data, y.columns, result...);
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

  template <placement At, placement Table, class View>
  [[nodiscard]] std::size_t first_table_row(View const& x) const {
    return typing::is_rows(At) && At == Table ? 0 : first_position(x);
  }

  Rank& rank_;
  int leaf_;
  void const* not_begun_ = nullptr;
};

}  // namespace plait::execution

namespace plait::ext {

using execution::operations;

}  // namespace plait::ext
