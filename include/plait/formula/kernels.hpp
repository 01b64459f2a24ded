// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/backend/element_place.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/macros.hpp"
#include "plait/formula/node.hpp"
#include "plait/operation/rows.hpp"
#include "plait/placement/placement.hpp"
#include "plait/run/operands.hpp"
#include "plait/tensor/functions.hpp"

/// Operations that a device does not implement directly. Each is composed of operations that it
/// implements, and is a kernel for ops.run on this rank's blocks; formula/forms.hpp decides how
/// ranks may cut the operands.
namespace plait::formula {

using ext::matrix;
using ext::row_of;

/// Returns a view as a matrix.
template <class View>
constexpr auto matrix_of_view(View const& of) {
  return matrix<typename View::element>{of.data, of.rows, of.columns, of.columns};
}

// ---- Rows
// -----------------------------------------------------------------------------------------

/// A kernel that calls Function(columns, pointers...) on the device once for each row. The pointers
/// point to this row in each of the operands.
template <class Function>
struct row_kernel {
  static constexpr bool any_placement = true;
  Function f{};

  void operator()(auto const& queue, auto first, auto... more) const {
    queue.run(operation::rows{}, f, first.rows, first.columns, matrix_of_view(first),
              matrix_of_view(more)...);
  }
};
/// A kernel like row_kernel, for a function that takes the number of the row as its first argument.
template <class Function>
struct numbered_row_kernel {
  static constexpr bool any_placement = true;
  Function f{};

  void operator()(auto const& queue, auto first, auto... more) const {
    using element = typename decltype(first)::element;
    queue.run(operation::rows{},
              execution::numbered_rows<Function, element>{f, first.data, first.columns}, first.rows,
              first.columns, matrix_of_view(first), matrix_of_view(more)...);
  }
};

/// y[c] = the sum over k of x[k Width + c], for one row.
template <int Width>
struct sum_of_pieces {
  template <class X, class Y>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, Y* y) const {
    using sum_type = accumulate_t<std::remove_const_t<X>>;
    constexpr std::size_t width{Width};
    for (std::size_t c = 0; c < width; ++c) {
      sum_type sum{};
      for (std::size_t i = c; i < columns; i += width) sum += static_cast<sum_type>(x[i]);
      y[c] = static_cast<Y>(sum);
    }
  }
};
/// y = exp(x) / the sum of exp(x), for one row. `rows_of_position`: the number of consecutive rows
/// that belong to one position. If it is not 0, the columns after the position of the row are 0 (a
/// causal mask).
struct softmax_of_row {
  std::size_t rows_of_position = 0;

  template <class X, class Y>
  PLAIT_HOST_DEVICE void operator()(std::size_t number, std::size_t columns, X const* x,
                                    Y* y) const {
    using sum_type = accumulate_t<std::remove_const_t<X>>;
    std::size_t const last = rows_of_position == 0 ? columns : number / rows_of_position + 1;
    sum_type greatest = static_cast<sum_type>(x[0]);
    for (std::size_t i = 1; i < last; ++i)
      if (static_cast<sum_type>(x[i]) > greatest) greatest = static_cast<sum_type>(x[i]);
    sum_type sum{};
    for (std::size_t i = 0; i < last; ++i)
      sum += functions::exponential(static_cast<sum_type>(x[i]) - greatest);
    for (std::size_t i = 0; i < last; ++i)
      y[i] = static_cast<Y>(functions::exponential(static_cast<sum_type>(x[i]) - greatest) / sum);
    for (std::size_t i = last; i < columns; ++i) y[i] = static_cast<Y>(0);
  }
};
/// dx = y (dy - the sum of y dy), for one row.
struct softmax_gradient_of_row {
  template <class Y, class X>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, Y const* y, Y const* dy, X* dx) const {
    using sum_type = accumulate_t<std::remove_const_t<Y>>;
    sum_type sum{};
    for (std::size_t i = 0; i < columns; ++i)
      sum += static_cast<sum_type>(y[i]) * static_cast<sum_type>(dy[i]);
    for (std::size_t i = 0; i < columns; ++i)
      dx[i] = static_cast<X>(static_cast<sum_type>(y[i]) * (static_cast<sum_type>(dy[i]) - sum));
  }
};

/// y = log of the sum of exp(x), for one row.
struct log_sum_exp_of_row {
  template <class X, class Y>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, Y* y) const {
    using std::log;
    using sum_type = accumulate_t<std::remove_const_t<X>>;
    auto const greatest = static_cast<sum_type>(x[place_of_greatest(columns, x)]);
    sum_type sum{};
    for (std::size_t i = 0; i < columns; ++i)
      sum += functions::exponential(static_cast<sum_type>(x[i]) - greatest);
    *y = static_cast<Y>(greatest + log(sum));
  }
  /// Returns the place of the greatest element; of equal elements, the first.
  template <class X>
  PLAIT_HOST_DEVICE static std::size_t place_of_greatest(std::size_t columns, X const* x) {
    std::size_t out = 0;
    for (std::size_t i = 1; i < columns; ++i)
      if (static_cast<accumulate_t<X>>(x[i]) > static_cast<accumulate_t<X>>(x[out])) out = i;
    return out;
  }
};
struct greatest_of_row {
  template <class X, class Y>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, Y* y) const {
    std::size_t const place = log_sum_exp_of_row::place_of_greatest(columns, x);
    *y = static_cast<Y>(static_cast<accumulate_t<X>>(x[place]));
  }
};
/// Writes y to `at`; if `IsAdded` is true, adds y to `at`.
template <bool IsAdded, class T>
PLAIT_HOST_DEVICE void put_gradient(T& at, accumulate_t<T> y) {
  at = static_cast<T>(IsAdded ? static_cast<accumulate_t<T>>(at) + y : y);
}
/// dx = exp(x - y) dy = softmax(x) dy, for one row.
template <bool IsAdded>
struct log_sum_exp_gradient_of_row {
  template <class X, class Y, class DX>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, Y const* y, Y const* dy,
                                    DX* dx) const {
    using sum_type = accumulate_t<DX>;
    for (std::size_t i = 0; i < columns; ++i)
      put_gradient<IsAdded>(
          dx[i], functions::exponential(static_cast<sum_type>(x[i]) - static_cast<sum_type>(*y)) *
                     static_cast<sum_type>(*dy));
  }
};
/// dx = dy in one column and 0 in all other columns, for one row.
template <bool IsAdded>
struct gradient_in_column {
  template <class Y, class DX>
  PLAIT_HOST_DEVICE static void put(std::size_t columns, std::size_t column, Y const* dy, DX* dx) {
    for (std::size_t i = 0; !IsAdded && i < columns; ++i) dx[i] = static_cast<DX>(0);
    if (column < columns) put_gradient<IsAdded>(dx[column], static_cast<accumulate_t<DX>>(*dy));
  }
};
template <bool IsAdded>
struct greatest_gradient_of_row {
  template <class X, class Y, class DX>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, Y const* dy, DX* dx) const {
    gradient_in_column<IsAdded>::put(columns, log_sum_exp_of_row::place_of_greatest(columns, x), dy,
                                     dx);
  }
};
/// y = x[id], for one row; 0 if `id` is not the number of a column.
struct pick_of_row {
  template <class X, class Y>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, X const* x, std::int32_t const* id,
                                    Y* y) const {
    bool const is_column = *id >= 0 && static_cast<std::size_t>(*id) < columns;
    *y = is_column ? static_cast<Y>(static_cast<accumulate_t<X>>(x[*id])) : Y{0};
  }
};
template <bool IsAdded>
struct pick_gradient_of_row {
  template <class Y, class DX>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, DX* dx, std::int32_t const* id,
                                    Y const* dy) const {
    // A negative integer becomes a large number, which is not a column either.
    gradient_in_column<IsAdded>::put(columns, static_cast<std::size_t>(*id), dy, dx);
  }
};

// ---- Pieces of columns
// ----------------------------------------------------------------------------

/// y = piece `Number` of the columns of x.
template <int Number>
struct part_kernel {
  static constexpr bool any_placement = true;

  void operator()(auto const& queue, auto x, auto y) const {
    queue.copy_blocks(x.data + Number * y.columns, x.columns, y.data, y.columns, y.rows, y.columns);
  }
};
/// Copies x to piece `Number` of the columns of y.
template <int Number>
struct piece_kernel {
  static constexpr bool any_placement = true;

  void operator()(auto const& queue, auto x, auto y) const {
    queue.copy_blocks(x.data, x.columns, y.data + Number * x.columns, y.columns, x.rows, x.columns);
  }
};

// ---- Positions
// ------------------------------------------------------------------------------------

/// y = the rows of x `steps` positions earlier; 0 where these are outside of the sample.
struct shift_kernel {
  static constexpr bool any_placement = true;
  int steps = 0;
  std::size_t rows_of_position = 1;

  void operator()(auto const& queue, auto x, auto y) const {
    using element = typename decltype(y)::element;
    std::size_t const distance = std::size_t(steps < 0 ? -steps : steps) * rows_of_position;
    std::size_t const moved = distance < y.rows ? y.rows - distance : 0;
    std::size_t const zeros = (y.rows - moved) * y.columns, count = moved * y.columns;
    std::size_t const from = steps < 0 ? distance * y.columns : 0;
    std::size_t const to = steps < 0 ? 0 : zeros;
    if (count > 0) queue.copy_bytes(x.data + from, y.data + to, count * sizeof(element));
    queue.fill(element{0}, y.data + (steps < 0 ? count : 0), zeros);
  }
};
/// A function that returns a b + c.
struct multiply_and_add {
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T a, T b, T c) const {
    return a * b + c;
  }
};
/// A function that returns factor a + b.
struct scale_and_add {
  double factor = 1;

  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>(factor) * a + b;
  }
};
/// h[t] = a[t] h[t - 1] + x[t], with one call of the device for each position. If the operand a is
/// absent, a[t] is `factor`.
struct scan_kernel {
  static constexpr bool any_placement = true;
  std::size_t rows_of_position = 1;
  double factor = 1;

  void operator()(auto const& queue, auto x, auto h) const {
    std::size_t const step = rows_of_position * h.columns, count = h.count();
    if (count == 0) return;
    queue.copy_bytes(x.data, h.data, step * sizeof(*h.data));
    for (std::size_t at = step; at < count; at += step)
      queue.run(operation::map{}, scale_and_add{factor}, row_of(h.data + at, step),
                read_row(h.data + at - step, step), row_of(x.data + at, step));
  }
  void operator()(auto const& queue, auto a, auto x, auto h) const {
    std::size_t const step = rows_of_position * h.columns, count = h.count();
    if (count == 0) return;
    queue.copy_bytes(x.data, h.data, step * sizeof(*h.data));
    for (std::size_t at = step; at < count; at += step)
      queue.run(operation::map{}, multiply_and_add{}, row_of(h.data + at, step),
                row_of(a.data + at, step), read_row(h.data + at - step, step),
                row_of(x.data + at, step));
  }
  template <class T>
  static matrix<T const> read_row(T const* data, std::size_t count) {
    return {data, 1, count, count};
  }
};
/// g[t] = dh[t] + a[t + 1] g[t + 1], the gradient of a scan. If the operand a is absent, a[t] is
/// `factor`.
struct scan_gradient_kernel {
  static constexpr bool any_placement = true;
  std::size_t rows_of_position = 1;
  double factor = 1;

  void operator()(auto const& queue, auto dh, auto g) const {
    std::size_t const step = rows_of_position * g.columns, count = g.count();
    if (count == 0) return;
    std::size_t at = count - step;
    queue.copy_bytes(dh.data + at, g.data + at, step * sizeof(*g.data));
    for (; at > 0; at -= step)
      queue.run(operation::map{}, scale_and_add{factor}, row_of(g.data + at - step, step),
                scan_kernel::read_row(g.data + at, step), row_of(dh.data + at - step, step));
  }
  void operator()(auto const& queue, auto a, auto dh, auto g) const {
    std::size_t const step = rows_of_position * g.columns, count = g.count();
    if (count == 0) return;
    std::size_t at = count - step;
    queue.copy_bytes(dh.data + at, g.data + at, step * sizeof(*g.data));
    for (; at > 0; at -= step)
      queue.run(operation::map{}, multiply_and_add{}, row_of(g.data + at - step, step),
                row_of(a.data + at, step), scan_kernel::read_row(g.data + at, step),
                row_of(dh.data + at - step, step));
  }
};

/// Returns element (h, s) of row (t, sample) of y, which is element h of row (s, sample) of v.
template <class V>
struct number_across {
  V const* v = nullptr;
  std::size_t positions = 1, batch = 1, heads = 1;

  PLAIT_HOST_DEVICE accumulate_t<V> operator()(ext::element_place const& at) const {
    std::size_t const row = at.column % positions * batch + at.sample;
    return static_cast<accumulate_t<V>>(v[row * heads + at.column / positions]);
  }
};
/// Returns the sum over t of element (h, s) of row (t, sample) of dy.
template <class DY>
struct sum_across {
  DY const* dy = nullptr;
  std::size_t positions = 1, batch = 1, heads = 1;

  PLAIT_HOST_DEVICE accumulate_t<DY> operator()(ext::element_place const& at) const {
    accumulate_t<DY> sum{};
    for (std::size_t t = 0; t < positions; ++t) {
      std::size_t const row = t * batch + at.sample;
      sum += static_cast<accumulate_t<DY>>(dy[(row * heads + at.column) * positions + at.position]);
    }
    return sum;
  }
};
/// Writes f(place) to each element of y.
template <class Function, class Y>
void make_elements(auto const& queue, Function f, std::size_t batch, Y const& y) {
  queue.run(operation::map_at{}, f, ext::element_block{y.rows, y.columns, batch, 0, 0, 0},
            matrix_of_view(y));
}
struct across_kernel {
  static constexpr bool any_placement = true;
  std::size_t positions = 1, batch = 1;

  void operator()(auto const& queue, auto v, auto y) const {
    using element = std::remove_const_t<typename decltype(v)::element>;
    make_elements(queue, number_across<element>{v.data, positions, batch, v.columns}, batch, y);
  }
};
struct across_gradient_kernel {
  static constexpr bool any_placement = true;
  std::size_t positions = 1, batch = 1;

  void operator()(auto const& queue, auto dy, auto dv) const {
    using element = std::remove_const_t<typename decltype(dy)::element>;
    make_elements(queue, sum_across<element>{dy.data, positions, batch, dv.columns}, batch, dv);
  }
};

// ---- Contractions
// ---------------------------------------------------------------------------------

/// One dimension of the loops of a contraction: its length, and its strides in both operands and in
/// the result, in elements. A stride is 0 where a value lacks the dimension.
struct loop_dimension {
  std::size_t length = 1;
  std::size_t strides[3]{};
};

/// A contraction, as one product of matrices for each sample and each combination of the letters
/// that all three values have.
///
/// Example: "thd,shd->hts" of q and k has the letter h in all values. For each sample and head it
/// issues one product of (t, d) and transposed (s, d), whose strides skip the other heads.
struct contract_kernel {
  static constexpr bool any_placement = true;
  std::size_t batch = 1;
  std::size_t sample_strides[3]{};
  loop_dimension repeated[3]{};  ///< letters that all three values have
  loop_dimension rows{}, inner{}, columns{};

  void operator()(auto const& queue, auto a, auto b, auto c) const {
    if (columns.strides[2] == 1 || columns.length == 1) run(queue, a.data, b.data, c.data, 0, 1);
    else run_swapped(queue, a.data, b.data, c.data);
  }

 private:
  void run_swapped(auto const& queue, auto const* a, auto const* b, auto* c) const {
    contract_kernel swapped = *this;
    swapped.rows = columns, swapped.columns = rows;
    swapped.run(queue, b, a, c, 1, 0);
  }
  /// Issues the products. `a`, `b`: the indices of x and of y among the strides of each loop
  /// dimension, which are 0 and 1, or 1 and 0 if the operands are swapped.
  void run(auto const& queue, auto const* x, auto const* y, auto* out, int a, int b) const {
    for (std::size_t sample = 0; sample < batch; ++sample)
      for (std::size_t i = 0; i < repeated[0].length; ++i)
        for (std::size_t j = 0; j < repeated[1].length; ++j)
          for (std::size_t k = 0; k < repeated[2].length; ++k) {
            auto const offset = [&](int of) {
              return sample * sample_strides[of] + i * repeated[0].strides[of] +
                     j * repeated[1].strides[of] + k * repeated[2].strides[of];
            };
            bool x_lies = false, y_lies = false;
            auto const left = laid(x + offset(a), rows, inner, a, x_lies);
            auto const right = laid(y + offset(b), inner, columns, b, y_lies);
            matrix const made{out + offset(2), rows.length, columns.length,
                              rows.length == 1 ? columns.length : rows.strides[2]};
            queue.run(operation::matmul{}, left, right, made, ext::transposes{x_lies, y_lies},
                      false);
          }
  }
  /// Returns the matrix that has one loop dimension as rows and another as columns. It is stored
  /// transposed if its rows are contiguous. `of`: the index of this matrix among the strides of
  /// each loop dimension.
  template <class T>
  static matrix<T const> laid(T const* data, loop_dimension const& rows,
                              loop_dimension const& columns, int of, bool& is_transposed) {
    std::size_t const across = rows.strides[of], along = columns.strides[of];
    is_transposed = columns.length > 1 && along != 1;
    if (is_transposed) return {data, columns.length, rows.length, along};
    return {data, rows.length, columns.length, rows.length == 1 ? columns.length : across};
  }
};

/// The lengths of a value's dimensions on this rank, and the strides between their elements.
struct local_value {
  std::size_t lengths[node::most_dimensions]{}, strides[node::most_dimensions]{};
  std::size_t columns = 1;

  /// `n`: the value; `at`: its placement; `rows`, `its_columns`: the sizes of its view.
  constexpr local_value(node const& n, placement at, std::size_t rows, std::size_t its_columns,
                        std::size_t sequence)
      : columns(its_columns) {
    std::size_t stride = 1;
    for (int f = n.factor_count - 1; f >= 0; --f) {
      auto const whole = std::size_t(n.factors[f].extent);
      std::size_t const length =
          f == cut_factor(n, at) ? whole * columns / std::size_t(n.width()) : whole;
      lengths[f + 1] = length, strides[f + 1] = stride;
      stride *= length;
    }
    lengths[0] = sequence;
    strides[0] = rows / sequence * columns;
  }

 private:
  /// Returns the factor that ranks cut, which follows from the parts of the placement; -1 for none.
  static constexpr int cut_factor(node const& n, placement at) {
    int slower = 1;
    for (int f = 0; f < n.factor_count; slower *= n.factors[f++].extent)
      if (ext::is_shard(at) && at.index == 1 && at.parts == slower) return f;
    return -1;
  }
};

/// Returns the kernel of a contraction. `values`: both operands and the result.
inline contract_kernel make_contract_kernel(node const& n, local_value const* values,
                                            std::size_t batch) {
  contract_kernel out;
  out.batch = batch;
  for (int side = 0; side < 3; ++side) out.sample_strides[side] = values[side].columns;
  int repeated = 0;
  bool is_seen[26]{};
  for (int side = 0; side < 3; ++side)
    for (int d = 0; d < node::most_dimensions && n.letters[side][d] != 0; ++d) {
      char const letter = n.letters[side][d];
      if (is_seen[letter - 'a']) continue;
      is_seen[letter - 'a'] = true;
      loop_dimension loop;
      bool has[3]{};
      for (int other = 0; other < 3; ++other)
        for (int e = 0; e < node::most_dimensions; ++e)
          if (n.letters[other][e] == letter) {
            has[other] = true;
            loop.length = values[other].lengths[e];
            loop.strides[other] = values[other].strides[e];
          }
      if (has[0] && has[1] && has[2]) out.repeated[repeated++] = loop;
      else if (has[0] && has[1]) out.inner = loop;
      else if (has[0]) out.rows = loop;
      else out.columns = loop;
    }
  return out;
}

}  // namespace plait::formula
