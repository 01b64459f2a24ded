// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "plait/backend/arguments.hpp"
#include "plait/backend/attention_shape.hpp"
#include "plait/backend/device.hpp"
#include "plait/backend/element_place.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/in_passes.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/backend/queue_calls.hpp"
#include "plait/backend/simulated/simulated_operation.hpp"
#include "plait/backend/simulated/simulated_rank.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"

namespace plait::ext {

/// The queue of one stream of a simulated device. Each operation is put at the end of the stream;
/// when it is executed, the function of host_queue computes it.
///
/// An operation's entry in the table operation/rows.hpp (its row) says which operands the operation
/// reads, writes and adds to. Operands that are not in this entry are read if their elements are
/// const, otherwise written.
/// Errors:  race_error, thrown when the rank synchronizes.
/// Threads: used by the one thread that runs the rank.
class simulated_queue : public queue_calls<simulated_queue> {
  using executed = detail::simulated_operation;
  template <class T>
  using in = matrix<T const>;  // an operand that is only read

 public:
  simulated_queue(detail::simulated_rank& rank, stream on) : rank_(&rank), on_(on) {}

  /// Puts an operation into the stream that makes these bytes undefined; see host_queue::discard.
  void discard(void* data, std::size_t bytes) const {
    if (bytes != 0) put("discard", [=](executed& now) { now.discard_bytes(data, bytes); });
  }

  template <operation::is_row Row, class... Arguments>
    requires runs<host_queue, Row, Arguments...>
  void run(Row row, Arguments... arguments) const {
    check_places<Row>(arguments...);
    put(Row::is.name, [=](executed& now) {
      touch_all<Row, true>(now, arguments...);
      touch_all<Row, false>(now, arguments...);
      now.run([&] { host_queue(now.workspace()).run(row, arguments...); });
    });
  }
  /// Calls kernel(host_queue, views...) when the operation is executed. Views of elements that are
  /// not const are checked as written; the kernel may read them after it has written them.
  template <class Kernel, class... Views>
    requires(!operation::is_row<Kernel>)
  void run(Kernel kernel, Views... views) const {
    put("run", [=](executed& now) mutable {
      (touch_view<true>(now, views), ...);
      (touch_view<false>(now, views), ...);
      now.run([&] { host_queue(now.workspace()).run(kernel, views...); });
    });
  }
  template <class Row, class T, class Shape>
  void prepare(Row row, in<T> operand, Shape const& shape) const {
    host_queue(rank_->workspace()).prepare(row, operand, shape);
  }

  /// Puts a matrix product into the stream. If `accumulate`, c is read, too.
  template <class A, class C>
  void run(operation::matmul row, in<A> a, in<A> b, matrix<C> c, transposes lie,
           bool accumulate) const {
    check_places<operation::matmul>(a, b, c);
    put(row.is.name, [=](executed& now) {
      if (c.count() == 0) return;
      touch_all<operation::matmul, true>(now, a, b);
      if (accumulate) now.reads_rows(c.data, c.stride, c.rows, c.columns);
      now.writes_rows(c.data, c.stride, c.rows, c.columns);
      now.run([&] { host_queue{}.run(row, a, b, c, lie, accumulate); });
    });
  }

  // ---- Fused operations, in passes; each pass is a separate operation ---------------------------

  template <class T, class Function>
  void run(operation::matmul, in<T> a, in<T> b, matrix<T> c, transposes lie,
           epilogue<T, Function> const& then) const {
    matmul_onto_row(*this, a, b, c, lie, then);
  }
  template <class A, class C, class S>
  void run(operation::matmul, in<A> a, in<A> b, matrix<C> c, transposes lie, bool accumulate,
           operand_sums<S> const& with) const {
    matmul_and_sums_in_passes(*this, a, b, c, lie, accumulate, with);
  }
  template <class T, class Kept, class Sum>
  void run(operation::layer_norm_backward, in<T> dy, in<T> x, in<Kept> statistics, in<T> gamma,
           matrix<T> dx, matrix<Sum> dgamma, matrix<Sum> dbeta, in<T> added, matrix<T> sum) const {
    layer_norm_backward_in_passes(*this, dy, x, statistics, gamma, dx, dgamma, dbeta, added, sum);
  }
  template <class T, class Kept, class Target>
  void run(operation::cross_entropy_statistics, in<T> logits, in<std::int32_t> labels,
           matrix<Kept> max, matrix<Kept> terms, Target target) const {
    cross_entropy_statistics_in_passes(*this, logits, labels, max, terms, target);
  }

  // ---- Operations on blocks that a list of ranges describes -------------------------------------

  template <class Arena>
  void run(operation::adamw row, in<adamw_numbers> numbers, Arena const& of,
           adamw_constants const& fixed) const {
    put_update(row, numbers, of, fixed, 2);
  }
  template <class Arena>
  void run(operation::sgd row, in<sgd_numbers> numbers, Arena const& of,
           sgd_constants const& fixed) const {
    put_update(row, numbers, of, fixed, fixed.momentum != 0 ? 1 : 0);
  }
  template <class T>
  void run(operation::sums_of_squares row, T const* x, in<squares_range> ranges,
           double* sums) const {
    put(operation::sums_of_squares::is.name, [=](executed& now) {
      now.reads(ranges.data, ranges.columns);
      if (!now.is_defined()) return;  // the ranges have undefined values
      for (std::size_t i = 0; i < ranges.columns; ++i)
        now.reads(x + ranges.data[i].offset, ranges.data[i].count);
      for (std::size_t i = 0; i < ranges.columns; ++i) now.writes(sums + ranges.data[i].index, 1);
      now.run([&] { host_queue{}.run(row, x, ranges, sums); });
    });
  }

 private:
  // Puts an optimizer's step into the stream. host_queue also converts the gaps between ranges, but
  // nothing uses the gaps, so only the ranges are declared as read and written.
  template <class Row, class Numbers, class Arena, class Constants>
  void put_update(Row row, in<Numbers> numbers, Arena const& of, Constants const& fixed,
                  std::size_t states) const {
    put(Row::is.name, [=](executed& now) {
      now.reads(numbers.data, 1);
      now.reads(of.gradient_scale, 1);
      now.reads(of.ranges, static_cast<std::size_t>(of.range_count));
      if constexpr (requires { of.origins; }) {
        now.reads(of.step, 1);
        now.reads(of.origins, static_cast<std::size_t>(of.origin_count));
      }
      if (!now.is_defined()) return;  // the ranges have undefined values
      for (int i = 0; i < of.range_count; ++i) {
        std::size_t const offset = of.ranges[i].offset, count = of.ranges[i].count;
        now.reads(of.gradients + offset, count);
        now.updates(of.parameters + offset, count);
        for (std::size_t s = 0; s < states; ++s)
          now.updates(of.states + s * of.state_stride + offset, count);
        if (of.copies != nullptr) now.writes(of.copies + offset, count);
      }
      now.run([&] { host_queue{}.run(row, numbers, of, fixed); });
    });
  }
  template <class Work>
  void put(std::string_view name, Work work) const {
    rank_->enqueue(on_, name, std::move(work));
  }

  /// Returns how an operation uses its operand `number`: reads it, writes it or adds to it. The
  /// operation's row states this. For an operand that is not in the row, the constness of its
  /// elements decides.
  template <class Row>
  static operation::operand role_of(int number, bool is_const) {
    operation::operand role;
    role.is_written = !is_const;
    constexpr auto& row = operation::indices_of<Row>;
    return number < row.count ? row.operands[number] : role;
  }

  struct place {
    void const *begin, *end;
    bool is_written;
  };
  template <class T>
  static void note(operation::signature const& row, place* places, int& number,
                   matrix<T> const& of) {
    if (number == row.count) return;
    places[number] = {of.data, of.end(), row.operands[number].is_written};
    ++number;
  }
  // Does nothing for an argument that is a number, because a number has no memory.
  static void note(operation::signature const&, place*, int&, auto const&) {}
  /// Checks that no result overlaps an operand that is read, except that it may begin at the same
  /// address if the operation's row contains "in place".
  ///
  /// Errors: input_error.
  template <class Row, class... Arguments>
  void check_places(Arguments const&... arguments) const {
    constexpr auto& row = operation::indices_of<Row>;
    // The check is omitted for copy_blocks, whose source and target rows may be interleaved in
    // memory.
    if constexpr (row.count > 1 && !std::is_same_v<Row, operation::copy_blocks>) {
      place places[row.count]{};
      int number = 0;
      (note(row, places, number, arguments), ...);
      for (place const& one : places)
        for (place const& other : places) {
          bool const overlap = one.begin < other.end && other.begin < one.end;
          if (one.is_written && !other.is_written && overlap &&
              !(row.in_place && one.begin == other.begin))
            rank_->refuse_in_place(Row::is.name);
        }
    }
  }

  /// Declares the accesses to all operands that are read (`IsRead`), or to all operands that are
  /// written.
  template <class Row, bool IsRead, class... Arguments>
  static void touch_all(executed& now, Arguments const&... arguments) {
    int number = 0;
    (touch<Row, IsRead>(now, number, arguments), ...);
  }
  template <class Row, bool IsRead, class T>
  static void touch(executed& now, int& number, matrix<T> const& of) {
    auto const role = role_of<Row>(number++, std::is_const_v<T>);
    if constexpr (IsRead) {
      if (!role.is_written || role.is_added_to)
        now.reads_rows(of.data, of.stride, of.rows, of.columns);
    } else if constexpr (!std::is_const_v<T>) {
      if (role.is_written) now.writes_rows(of.data, of.stride, of.rows, of.columns);
    }
  }
  template <class Row, bool IsRead, class T>
  static void touch(executed& now, int&, element_operand<T> const& of) {
    if (IsRead) now.reads(of.data, of.count);
  }
  template <class Row, bool IsRead>
  static void touch(executed& now, int&, dropout_key const& key) {
    if (IsRead) now.reads(key.step, 1);
  }
  /// For an element-wise function that draws random numbers, declares the read of its step number.
  template <class Row, bool IsRead, class Function>
    requires requires(Function const& f) { f.key.step; }
  static void touch(executed& now, int& number, Function const& f) {
    if (f.key.step != nullptr) touch<Row, IsRead>(now, number, f.key);
  }
  template <class Row, bool IsRead>
  // Does nothing for an argument that is a number, because a number has no memory.
  static void touch(executed&, int&, auto const&) {}

  template <bool IsRead, class View>
  static void touch_view(executed& now, View const& of) {
    constexpr bool is_const = std::is_const_v<std::remove_pointer_t<decltype(of.data)>>;
    std::size_t count = of.rows;  // views of tokens have rows only
    if constexpr (requires { of.count(); }) count = of.count();
    if constexpr (IsRead && is_const) now.reads(of.data, count);
    if constexpr (!IsRead && !is_const) now.writes(of.data, count);
  }

  detail::simulated_rank* rank_;
  stream on_;
};

}  // namespace plait::ext
