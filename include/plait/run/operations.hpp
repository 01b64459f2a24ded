// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "plait/backend/arguments.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/layer/typing.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/placement/transition.hpp"
#include "plait/plan/synchronization.hpp"
#include "plait/run/context.hpp"
#include "plait/run/move.hpp"
#include "plait/tensor/view.hpp"

namespace plait {

/// What a layer's body may do with its views. Each operation checks at compile time that the
/// placements of its operands allow it, and then runs on the device.
///
/// Names ending in `_backward...` compute gradients; those that take sums add to them.
/// Shapes: views are matrices (rows, columns); the rows of activations are positions times samples.
/// Errors: a wrong combination of placements does not compile.
template <class Rank>
class operations {
  using memory = typename Rank::device_type::memory;
  template <class T, placement At>
  using view_of = view<T, At, memory>;
  template <class T, placement At>
  using input_of = view<T const, At, memory>;
  using token_input = token_view<memory>;

 public:
  /// A row without padding.
  static constexpr std::size_t all_columns = std::numeric_limits<std::size_t>::max();

  /// For the body of layer `leaf` of the plan, on stream compute.
  operations(Rank& rank, layer_context const& where, int leaf)
      : context(where), rank_(rank), queue_(rank.device().on(stream::compute)), leaf_(leaf) {}

  /// Step, copy, microbatch and the global place of the local block.
  layer_context const& context;

  /// The first global position of the rows of a view, and how many positions it has.
  template <class View>
  [[nodiscard]] std::size_t first_position(View const& x) const {
    return typing::is_rows(View::at) ? positions(x) * rank() : 0;
  }
  template <class View>
  [[nodiscard]] std::size_t positions(View const& x) const {
    return x.rows / context.batch;
  }
  /// The first global column of a view.
  template <class View>
  [[nodiscard]] std::size_t first_column(View const& x) const {
    return typing::is_columns(View::at) ? x.columns * rank() : 0;
  }
  /// The first global row of a parameter's view.
  template <class View>
  [[nodiscard]] std::size_t first_row(View const& x) const {
    return typing::is_rows(View::at) ? x.rows * rank() : 0;
  }

  /// out = a b. Write transposed(a) for the transpose of a. `out` is a view, or y or dx as a layer
  /// with `takes_epilogue` got it.
  template <class A, class B, class Out>
  void matmul(A a, B b, Out out) {
    if constexpr (is_mapped<Out>) product(a, b, out.of, out.of.data, epilogue_of(nullptr, out));
    else product(a, b, out, false, out.data, out.columns);
  }
  /// out = a b + row, on each row of a b.
  template <class A, class B, class T, placement Row, class Out>
  void matmul_add_row(A a, B b, input_of<T, Row> row, Out out) {
    if constexpr (is_mapped<Out>) {
      typing::check_add_row<decltype(out.of)::at, Row>();
      product(a, b, out.of, out.of.data, epilogue_of(row.data, out));
    } else {
      typing::check_add_row<Out::at, Row>();
      product(a, b, out, out.data, epilogue<std::remove_const_t<T>>{.row = row.data});
    }
  }
  /// out += a b; for gradients of parameters.
  template <class A, class B, class T, placement Out>
  void accumulate_matmul(A a, B b, view_of<T, Out> out) {
    product(a, b, out, true, out.data, out.columns);
  }

  /// y += row, on each row of y.
  template <class T, placement Row, placement At>
  void add_row(input_of<T, Row> row, view_of<std::remove_const_t<T>, At> y) {
    typing::check_add_row<At, Row>();
    queue_.add_row(row.data, y.data, y.rows, y.columns);
  }
  /// sums += the sum of the rows of dy: the gradient of add_row by its row.
  template <class T, class Sum, placement At, placement Sums>
  void accumulate_column_sums(input_of<T, At> dy, view_of<Sum, Sums> sums) {
    typing::check_column_sums<At, Sums>();
    queue_.accumulate_column_sums(dy.data, sums.data, dy.rows, dy.columns);
  }
  /// sums[c] += the sum over the rows r of f(a[r][c], b[r][c]).
  template <class Function, class A, class B, class T, placement Sums>
  void accumulate_columns(Function f, A a, B b, view_of<T, Sums> sums) {
    typing::check_map<false, A::at, A::at, B::at>();
    typing::check_column_sums<A::at, Sums>();
    queue_.accumulate_columns(f, a.rows, a.columns, sums.data, a.data, b.data);
  }

  /// y = x. y may be x.
  template <class T, placement At>
  void copy(input_of<T, At> x, view_of<T, At> y) {
    queue_.copy_bytes(x.data, y.data, x.count() * sizeof(T));
  }
  /// out = a + b. out may be a or b.
  template <class A, class B, class T, placement Out>
  void add(A a, B b, view_of<T, Out> out) {
    typing::check_sum<A::at, B::at, Out>();
    queue_.add(as_input(a).data, as_input(b).data, out.data, out.count());
  }
  /// y = f(x), element by element. `f` is a named type with a PLAIT_HOST_DEVICE call operator; if
  /// it is linear it may say `static constexpr bool is_linear = true;`. y may be x.
  template <class Function, class A, class T, placement Out>
  void map(Function f, A x, view_of<T, Out> y) {
    typing::check_map<is_linear<Function>, Out, A::at>();
    queue_.map(f, y.count(), as_input(x).data, y.data);
  }
  /// y = f(a, b), element by element. y may be a or b.
  template <class Function, class A, class B, class T, placement Out>
  void map(Function f, A a, B b, view_of<T, Out> y) {
    typing::check_map<is_linear<Function>, Out, A::at, B::at>();
    queue_.map(f, y.count(), as_input(a).data, as_input(b).data, y.data);
  }
  /// Calls f(columns, row of each view...) for every row; a view of one row is given every time.
  /// Pointers are to const where the view is; f is as for `map`.
  template <class Function, class First, class... Views>
  void rows(Function f, First first, Views... views) {
    typing::check_whole_rows<First::at>();
    auto const strided = [&first](auto of) {
      struct row_operand {
        typename decltype(of)::element* data;
        std::size_t stride;
        std::size_t width;
      };
      return row_operand{of.data, of.rows == 1 && first.rows != 1 ? 0 : of.columns, of.columns};
    };
    queue_.rows(f, first.rows, first.columns, strided(first), strided(views)...);
  }

  /// y = gamma (x - mean) / sqrt(variance + epsilon) + beta for each row; statistics holds the mean
  /// and the inverse deviation of each row.
  template <class T, class Kept, placement At, placement Shared>
  void layer_norm(input_of<T, At> x, input_of<T, Shared> gamma, input_of<T, Shared> beta,
                  view_of<T, At> y, view_of<Kept, At> statistics, double epsilon) {
    typing::check_row_operation<At, Shared>();
    queue_.layer_norm(x.data, gamma.data, beta.data, y.data, statistics.data, x.rows, x.columns,
                      epsilon);
  }
  /// dx may be dy.
  template <class T, class Kept, placement At, placement Gradient, placement Shared>
  void layer_norm_backward_input(input_of<T, Gradient> dy, input_of<T, At> x,
                                 input_of<Kept, At> statistics, input_of<T, Shared> gamma,
                                 view_of<T, Gradient> dx) {
    typing::check_row_operation<At, Shared>();
    queue_.layer_norm_backward_input(dy.data, x.data, statistics.data, gamma.data, dx.data, x.rows,
                                     x.columns);
  }
  template <class T, class Kept, class Sum, placement At, placement Gradient, placement Sums>
  void layer_norm_backward_parameters(input_of<T, Gradient> dy, input_of<T, At> x,
                                      input_of<Kept, At> statistics, view_of<Sum, Sums> dgamma,
                                      view_of<Sum, Sums> dbeta) {
    typing::check_column_sums<Gradient, Sums>();
    queue_.layer_norm_backward_parameters(dy.data, x.data, statistics.data, dgamma.data, dbeta.data,
                                          x.rows, x.columns);
  }

  /// Causal self-attention of heads of `head_width`; qkv is query, key and value side by side.
  ///
  /// Shapes: qkv (rows, 3 heads head_width); out (rows, heads head_width); log_sum (rows, heads).
  template <class T, class Kept, placement Qkv, placement Out, placement Sums, placement Any>
  void attention(input_of<T, Qkv> qkv, view_of<T, Out> out, view_of<Kept, Sums> log_sum,
                 view_of<Kept, Any> scratch, std::size_t head_width) {
    check_heads<Qkv, Out>();
    queue_.attention(qkv.data, out.data, log_sum.data, scratch.data, context.sequence,
                     context.batch, out.columns / head_width, head_width);
  }
  template <class T, class Kept, placement Qkv, placement Out, placement DOut, placement DQkv,
            placement Sums, placement Any>
  void attention_backward(input_of<T, Qkv> qkv, input_of<T, Out> out, input_of<Kept, Sums> log_sum,
                          input_of<T, DOut> dout, view_of<T, DQkv> dqkv, view_of<Kept, Any> scratch,
                          std::size_t head_width) {
    check_heads<Qkv, Out>();
    typing::check_gradient<Out, DOut>();
    typing::check_gradient<Qkv, DQkv>();
    queue_.attention_backward(qkv.data, out.data, log_sum.data, dout.data, dqkv.data, scratch.data,
                              context.sequence, context.batch, out.columns / head_width,
                              head_width);
  }

  /// Row r of out is row ids[r] of the table; zeros where another rank has that row.
  template <class T, placement Table, placement Out>
  void gather_rows(token_input ids, input_of<T, Table> table, view_of<T, Out> out) {
    check_lookup<Table, Out>();
    queue_.gather_rows(ids.data, table.data, first_row(table), table.rows, out.data, out.rows,
                       out.columns);
  }
  /// Row ids[r] of sums += row r of dy: the gradient of gather_rows by its table.
  template <class T, class Sum, placement Gradient, placement Sums>
  void scatter_add_rows(token_input ids, input_of<T, Gradient> dy, view_of<Sum, Sums> sums) {
    check_lookup_gradient<Gradient, Sums>();
    queue_.scatter_add_rows(ids.data, dy.data, first_row(sums), sums.rows, sums.data, dy.rows,
                            dy.columns);
  }

  /// y = x + the table's row for the position of each row. The table has all positions, or, cut by
  /// rows like x, the local ones. y may be x.
  template <class T, placement At, placement Table>
  void add_positions(input_of<T, At> x, input_of<T, Table> table, view_of<T, At> y) {
    static_assert(typing::adds_row(At, Table) || (typing::is_rows(At) && At == Table),
                  "ops.add_positions(x, table, y): this table cannot be added to this x; cut both "
                  "alike, or use the table as replicate where x is cut by positions");
    queue_.add_positions(x.data, table.data, y.data, first_table_row<At, Table>(x), positions(x),
                         context.batch, x.columns);
  }
  template <class T, class Sum, placement At, placement Sums>
  void accumulate_positions(input_of<T, At> dy, view_of<Sum, Sums> sums) {
    static_assert(
        typing::column_sums(At) == Sums || (typing::is_rows(At) && At == Sums),
        "ops.accumulate_positions(dy, sums): the sums of a dy placed At are not placed "
        "Sums, as the form promises for this gradient; correct the use<...> of the table");
    queue_.accumulate_positions(dy.data, sums.data, first_table_row<At, Sums>(dy), positions(dy),
                                context.batch, dy.columns);
  }

  /// The greatest value of each row; of what this rank has of the row if it is cut. The columns
  /// from `valid_columns` of the whole row on are padding and do not count.
  template <class T, class Kept, placement At, placement Max>
  void row_max(input_of<T, At> x, view_of<Kept, Max> max, std::size_t valid_columns = all_columns) {
    static_assert(typing::is_columns(At) ? Max == partial_max : Max == At,
                  "ops.row_max(x, max): the maximum over cut columns is partial_max, otherwise "
                  "placed like x; write ops.over_columns<plait::partial_max>(x, max)");
    queue_.row_max(x.data, max.data, x.rows, x.columns, local_columns(x, valid_columns));
  }
  /// For each row: the sum of exp(logit - max), and logit - max of the label. Logits from column
  /// `classes` of the whole row on are padding and do not count.
  ///
  /// Shapes: logits (rows, classes); max (rows, 1); terms (rows, 2).
  template <class T, class Kept, placement At, class Max, placement Terms>
  void cross_entropy_terms(input_of<T, At> logits, token_input labels, Max max,
                           view_of<Kept, Terms> terms, std::size_t classes = all_columns) {
    static_assert(!is_partial(Max::at),
                  "ops.cross_entropy_terms(...): the maximum is still partial; write "
                  "ops.move<plait::invariant>(max) first");
    static_assert(typing::is_columns(At) ? Terms == partial : Terms == At,
                  "ops.cross_entropy_terms(...): the sums over cut columns are partial, otherwise "
                  "placed like the logits; write ops.over_columns<plait::partial>(logits, terms)");
    queue_.cross_entropy_terms(logits.data, labels.data, as_input(max).data, terms.data,
                               first_column(logits), logits.rows, logits.columns,
                               local_columns(logits, classes));
  }
  /// loss += scale * the sum over the rows of -log(probability of the label).
  template <class Terms>
  void cross_entropy(Terms terms, token_input labels, std::int32_t ignored, loss_sum loss) {
    static_assert(!is_partial(Terms::at),
                  "ops.cross_entropy(terms, ...): the logarithm of a partial sum; write "
                  "ops.move<plait::invariant>(terms) first");
    queue_.cross_entropy_sum(as_input(terms).data, labels.data, ignored, terms.rows,
                             context.loss_scale, loss.data);
  }
  /// dlogits may be logits; it is 0 from column `classes` of the whole row on.
  template <class T, class Kept, placement At, placement Row, placement Gradient>
  void cross_entropy_backward(input_of<T, At> logits, token_input labels, input_of<Kept, Row> max,
                              input_of<Kept, Row> terms, std::int32_t ignored, loss_seed seed,
                              view_of<T, Gradient> dlogits, std::size_t classes = all_columns) {
    typing::check_gradient<At, Gradient>();
    static_assert(!is_partial(Row),
                  "ops.cross_entropy_backward(...): the maximum and the terms are still partial; "
                  "give it what the forward made of them with ops.move<plait::invariant>");
    queue_.cross_entropy_backward(logits.data, labels.data, max.data, terms.data, seed.scale,
                                  dlogits.data, first_column(logits), ignored, logits.rows,
                                  logits.columns, local_columns(logits, classes));
  }

  /// y = x / (1 - probability) where random number (global index) keeps the element, else 0; with
  /// gradients for x and y it is its own backward. In evaluation y = x. y may be x.
  template <class T, placement At>
  void dropout(input_of<T, At> x, view_of<T, At> y, double probability, std::size_t width) {
    if (!context.training) return queue_.copy_bytes(x.data, y.data, x.count() * sizeof(T));
    dropout_block const block{context.batch,   first_position(x), context.first_sample,
                              first_column(x), context.sequence,  width};
    queue_.dropout(x.data, y.data, x.rows, x.columns,
                   dropout_key{context.seed, context.site, context.step}, probability, block);
  }

  /// An operation of the layer's own: calls kernel(queue, views...) where `queue` is that of the
  /// rank's device; on a GPU it has the stream to launch on. A view of const elements is read, a
  /// view of others is written and may be read, and nothing else may be touched.
  template <class Kernel, class... Views>
  void run(Kernel kernel, Views... views) {
    queue_.run(kernel, views...);
  }

  /// `result` as what a reduction over the columns of x gives before any exchange: `Cut` if the
  /// columns of x are cut, else placed like x.
  template <placement Cut, class View, class T, placement At>
  [[nodiscard]] auto over_columns(View const&, view_of<T, At> result) const {
    constexpr placement at = typing::is_columns(View::at) ? Cut : View::at;
    return view_of<T, at>{result.data, result.rows, result.columns};
  }

  /// The same values in another placement, in place: a sum or maximum over the tensor axis, or
  /// nothing if the view has that placement already. List it in the form as inner<...>.
  template <placement To, class T, placement From>
  view_of<T, To> move(view_of<T, From> x) {
    constexpr transition row = transition_between(From, To);
    static_assert(
        row.allowed() && (row.moves == movement::none || row.moves == movement::all_reduce ||
                          row.moves == movement::all_reduce_max),
        "ops.move<To>(x): inside a layer a value can change its placement only in place; "
        "the rows partial -> invariant and partial -> replicate do");
    if constexpr (row.moves != movement::none)
      rank_.cross(within_layers, {wait_site::part::layer, leaf_, 2 * moves_++}, [&] {
        move_in_place<From, To>(rank_.tensor_group(), std::span<T>(x.data, x.count()));
      });
    return {x.data, x.rows, x.columns};
  }

 private:
  template <class Function>
  static constexpr bool is_linear = [] {
    if constexpr (requires { Function::is_linear; }) return Function::is_linear;
    else return false;
  }();

  /// How many columns of the local block lie before column `end` of the whole row.
  template <class View>
  [[nodiscard]] std::size_t local_columns(View const& x, std::size_t end) const {
    std::size_t const first = first_column(x);
    return end <= first ? 0 : std::min(end - first, x.columns);
  }

  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(context.tensor_rank); }

  template <class T, placement At>
  static input_of<std::remove_const_t<T>, At> as_input(view_of<T, At> x) {
    return x;
  }

  template <class View>
  struct operand {
    static constexpr bool is_transposed = false;
    static constexpr placement at = View::at;
    static View const& of(View const& x) { return x; }
  };
  template <class View>
  struct operand<transposed_view<View>> {
    static constexpr bool is_transposed = true;
    static constexpr placement at = typing::transpose(View::at);
    static View const& of(transposed_view<View> const& x) { return x.of; }
  };

  template <class A, class B, class T, placement Out, class... Result>
  void product(A const& a, B const& b, view_of<T, Out> out, Result... result) {
    using left = operand<A>;
    using right = operand<B>;
    typing::check_product<left::at, right::at, Out>();
    auto const& x = left::of(a);
    auto const& y = right::of(b);
    std::size_t const inner = left::is_transposed ? x.rows : x.columns;
    queue_.matmul(left::is_transposed, right::is_transposed, out.rows, out.columns, inner, x.data,
                  x.columns, y.data, y.columns, result...);
  }

  template <class Out>
  static constexpr bool is_mapped = requires(Out out) { out.mapped; };

  template <class View, class Function, class Kept>
  static auto epilogue_of(typename View::element const* row,
                          mapped_view<View, Function, Kept> const& out) {
    epilogue<typename View::element, Function> then{
        .row = row, .f = out.f, .mapped = out.mapped.data};
    if constexpr (std::is_void_v<Kept>) {
      typing::check_map<is_linear<Function>, View::at, View::at>();
    } else {
      typing::check_map<is_linear<Function>, View::at, Kept::at, View::at>();
      then.kept = out.kept.data;
    }
    return then;
  }

  template <placement Qkv, placement Out>
  static consteval void check_heads() {
    static_assert((is_whole(Qkv) && Qkv == Out) ||
                      (typing::is_columns(Qkv) && Qkv.parts == 3 && typing::is_columns(Out)),
                  "ops.attention(qkv, out, ...): qkv must be whole, or cut by features in 3 parts "
                  "(whole heads of query, key and value), and out alike");
  }
  template <placement Table, placement Out>
  static consteval void check_lookup() {
    static_assert(typing::is_rows(Table) ? Out == partial
                  : typing::is_rows(Out) ? Table == replicate
                                         : Table == Out,
                  "ops.gather_rows(ids, table, out): rows looked up in a table cut by rows are "
                  "partial; otherwise out is placed like the table, or cut by positions");
  }
  template <placement Gradient, placement Sums>
  static consteval void check_lookup_gradient() {
    static_assert(typing::is_rows(Sums)       ? Gradient == replicate
                  : typing::is_rows(Gradient) ? Sums == partial
                                              : Sums == Gradient,
                  "ops.scatter_add_rows(ids, dy, sums): the sums of a dy placed Gradient are not "
                  "placed Sums, as the form promises; correct the use<...> of the table");
  }
  template <placement At, placement Table, class View>
  [[nodiscard]] std::size_t first_table_row(View const& x) const {
    return typing::is_rows(At) && At == Table ? 0 : first_position(x);
  }

  Rank& rank_;
  typename Rank::device_type::queue queue_;
  int leaf_;
  int moves_ = 0;  // made so far
};

}  // namespace plait
