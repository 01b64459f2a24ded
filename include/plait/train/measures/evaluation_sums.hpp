// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/type_name.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/measures/measures.hpp"

namespace plait::execution {

template <class Measure, std::size_t Most, std::size_t Outputs>
consteval void check_outputs() {
  static_assert(
      Most < Outputs,
      "trainer.evaluate(data, size, measures...): the measure top<Most> counts rows whose class is "
      "among the Most greatest outputs, but the model has at most Most outputs, so the measure "
      "would always be 1; use a Most below the number of outputs");
}

template <class Measure, class Target, std::size_t Outputs>
consteval void check_measure() {
  static_assert(measure<Measure>,
                "trainer.evaluate(data, size, measures...): this type is not a measure; a measure "
                "must define `using concept_tag = plait::measure_tag;`, numbers and value; see "
                "plait/train/measures/measures.hpp");
  if constexpr (measure<Measure>) {
    if constexpr (requires { Measure::needs_more_outputs_than; })
      check_outputs<Measure, Measure::needs_more_outputs_than, Outputs>();
    constexpr bool can_add =
        Measure::numbers == 0 ||
        requires(std::span<double const> outputs, std::span<Target const> of_row,
                 std::span<double> sums) { Measure::add(outputs, of_row, 1.0, sums); };
    static_assert(can_add,
                  "trainer.evaluate(data, size, measures...): this measure has no add for the "
                  "targets of the job; declare `static void add(std::span<double const> outputs, "
                  "std::span<Target const> targets, double weight, std::span<double> sums)`, where "
                  "Target is std::int32_t for classes, and float or double for real numbers");
  }
}

/// Throws the input_error for a measure that has written past the end of its `numbers` sums.
[[noreturn]] [[gnu::cold]] void refuse_write(std::string const& measure, std::size_t numbers);

/// The sums of an evaluation of a data set over its batches: the terms of the loss, and the numbers
/// of the measures. Each rank that has outputs of the model adds the rows of these outputs to its
/// own sums. After the last batch, all ranks add up these sums with one all_reduce, whose size does
/// not depend on the number of batches. For a mean loss and an accuracy, this all_reduce has 2
/// doubles.
template <class Terms, class... Measures>
class evaluation_sums {
  static_assert((check_measure<Measures, typename Terms::target, Terms::outputs()>(), ..., true));

 public:
  /// The number of sums of all measures together.
  static constexpr std::size_t count = (std::size_t{Measures::numbers} + ... + 0);

  evaluation_sums() {
    [[maybe_unused]] double* next = added_.data();
    ((next = std::fill_n(next + Measures::numbers, guards, untouched)), ...);
  }

  /// Returns the names of the measures, separated by commas.
  [[nodiscard]] [[gnu::cold]] static std::string names() {
    std::string out;
    ((out += (out.empty() ? "" : ", ") + type_name<Measures>()), ...);
    return out;
  }

  /// Adds a row of a batch to the sums of each measure. A row without a target that contributes to
  /// the loss is left out.
  ///
  /// Errors: the exceptions of the measures; input_error that names a measure if it writes past the
  ///         end of its sums.
  template <class Memory>
  void add_row(device_batch<Memory> const& batch, std::size_t row,
               std::span<double const> outputs) {
    using target = typename Terms::target;
    std::size_t const width = Terms::targets.width;
    std::span<target const> const of_row(
        static_cast<target const*>(batch.host_targets) + row * width, width);
    if (!Terms::any_counts(of_row)) return;
    double const weight = batch.host_weights == nullptr ? 1 : batch.host_weights[row];
    outputs = outputs.first(Terms::outputs());
    double* next = added_.data();
    auto const add = [&]<class Measure>(Measure*) {
      double* const end = next + Measure::numbers;
      if constexpr (Measure::numbers > 0) {
        Measure::add(outputs, of_row, weight, std::span<double>(next, end));
        if (std::any_of(end, end + guards, [](double guard) { return guard != untouched; }))
          refuse_write(type_name<Measure>(), Measure::numbers);
      }
      next = end + guards;
    };
    (add(static_cast<Measures*>(nullptr)), ...);
  }

  /// Returns a function that calls add_row for a row of `batch`. If a measure throws, the function
  /// keeps the exception and adds no more rows. values() throws the exception later, because all
  /// ranks must first complete the evaluation together.
  template <class Memory>
  [[nodiscard]] auto adder(device_batch<Memory> const& batch) {
    return [&](std::size_t row, std::span<double const> outputs) {
      if (failure_ != nullptr) return;
      try {
        add_row(batch, row, outputs);
      } catch (...) {
        failure_ = std::current_exception();
      }
    };
  }

  /// Adds the terms of the loss of a batch. Each term in `loss` is a mean over the number of
  /// targets or rows in `label_count`.
  void add_loss(auto const& loss, auto const& label_count) {
    for (std::size_t i = 0; i < label_count_.size(); ++i) {
      losses_[i] += loss[static_cast<int>(i)] * label_count[i];
      label_count_[i] += label_count[i];
    }
  }

  /// Returns the sums of all measures, one after the other. The caller must have added all rows
  /// before.
  [[nodiscard]] std::span<double> numbers() {
    double *to = sums_.data(), *from = added_.data();
    ((to = std::copy_n(from, Measures::numbers, to), from += Measures::numbers + guards), ...);
    return std::span(sums_).first(count);
  }

  /// Returns the values of the measures, as a tuple.
  ///
  /// Errors: the exception that a measure has thrown on this rank.
  [[nodiscard]] auto values(Measures const&... measures) const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    evaluation_totals totals{0, label_count_[Terms::first_loss]};
    bool any = false;
    for (std::size_t i = 0; i < label_count_.size(); ++i)
      if (label_count_[i] > 0) totals.loss += losses_[i] / label_count_[i], any = true;
    if (!any) totals.loss = std::numeric_limits<double>::quiet_NaN();
    double const* next = sums_.data();
    [[maybe_unused]] auto const take = [&](std::size_t own) {
      return std::span<double const>(std::exchange(next, next + own), own);
    };
    return std::tuple{measures.value(take(Measures::numbers), totals)...};
  }

 private:
  /// The number of guard values after the sums of each measure. An addition to a guard changes it,
  /// so a changed guard shows that a measure has written past the end of its sums.
  static constexpr std::size_t guards = 4;
  static constexpr double untouched = 0x1.8p-1000;

  std::array<double, count + guards * sizeof...(Measures) + 1> added_{};
  std::array<double, count + 1> sums_{};
  std::array<double, std::size_t(Terms::count)> losses_{}, label_count_{};
  std::exception_ptr failure_{};
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/measures/evaluation_sums.ipp"
#endif
