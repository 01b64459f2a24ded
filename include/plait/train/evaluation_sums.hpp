// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "plait/core/namespaces.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/measures.hpp"

namespace plait::execution {

template <class Measure, class Target>
consteval void check_measure() {
  static_assert(measure<Measure>,
                "trainer.evaluate(data, size, measures...): this type is no measure; give it "
                "`using concept_tag = plait::measure_tag;`, numbers and value, as "
                "plait/train/measures.hpp has them");
  if constexpr (measure<Measure>) {
    constexpr bool can_add =
        Measure::numbers == 0 ||
        requires(std::span<double const> outputs, std::span<Target const> of_row,
                 std::span<double> sums) { Measure::add(outputs, of_row, 1.0, sums); };
    static_assert(can_add,
                  "trainer.evaluate(data, size, measures...): this measure has no add for the "
                  "targets of the job: `static void add(std::span<double const> outputs, "
                  "std::span<Target const> targets, double weight, std::span<double> sums)`, where "
                  "Target is std::int32_t for classes and float or double for real numbers");
  }
}

/// What an evaluation of a data set adds up over its batches.
template <class Terms, class... Measures>
class evaluation_sums {
  static_assert((check_measure<Measures, typename Terms::target>(), ..., true));

 public:
  /// How many numbers the measures have.
  static constexpr std::size_t count = (std::size_t{Measures::numbers} + ... + 0);

  /// What the measures say of a row of a batch; rows without targets that count are left out.
  template <class Memory>
  void add_row(device_batch<Memory> const& batch, std::size_t row,
               std::span<double const> outputs) {
    using target = typename Terms::target;
    std::size_t const width = Terms::targets.width;
    std::span<target const> const of_row(
        static_cast<target const*>(batch.host_targets) + row * width, width);
    if (!Terms::any_counts(of_row)) return;
    double const weight = batch.host_weights == nullptr ? 1 : batch.host_weights[row];
    outputs = Terms::without_padding(outputs);
    double* next = sums_.data();
    auto const add = [&]<class Measure>(Measure*) {
      if constexpr (Measure::numbers > 0)
        Measure::add(outputs, of_row, weight, std::span<double>(next, Measure::numbers));
      next += Measure::numbers;
    };
    (add(static_cast<Measures*>(nullptr)), ...);
  }

  /// The terms of the loss of a batch, each the mean over what it counts, and that.
  void add_loss(auto const& loss, auto const& counted) {
    for (std::size_t i = 0; i < counted_.size(); ++i) {
      losses_[i] += loss[static_cast<int>(i)] * counted[i];
      counted_[i] += counted[i];
    }
  }

  [[nodiscard]] std::span<double> numbers() { return std::span(sums_).first(count); }

  /// What the measures make of all that, as a tuple.
  [[nodiscard]] auto values(Measures const&... measures) const {
    evaluation_totals totals{0, counted_[Terms::first_loss]};
    bool any = false;
    for (std::size_t i = 0; i < counted_.size(); ++i)
      if (counted_[i] > 0) totals.loss += losses_[i] / counted_[i], any = true;
    if (!any) totals.loss = std::numeric_limits<double>::quiet_NaN();
    double const* next = sums_.data();
    auto const take = [&](std::size_t own) {
      return std::span<double const>(std::exchange(next, next + own), own);
    };
    return std::tuple{measures.value(take(Measures::numbers), totals)...};
  }

 private:
  std::array<double, count + 1> sums_{};
  std::array<double, std::size_t(Terms::count)> losses_{}, counted_{};
};

}  // namespace plait::execution
