// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plait/backend/arguments.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/plan/memory.hpp"
#include "plait/train/trainer_options.hpp"

namespace plait::execution {

/// The numbers of one step that live in the device's memory: what the host sends before it, what
/// the step works out, and what the host reads after it.
template <class Optimizer, int Terms>
struct step_numbers {
  using terms = std::array<double, std::size_t(Terms)>;
  terms counted{};     ///< by each term of the loss: on this rank, then in the global batch
  terms loss_scale{};  ///< the term's weight, divided by that
  terms loss{};
  double stop = 0;  ///< behind the loss, with which it is summed; see stop_summand
  double gradient_norm = 0;
  double gradient_scale = 1;
  std::uint32_t step = 0;
  typename Optimizer::numbers optimizer{};
};

/// What the numbers of step `step` say, when the host has read them; `Terms` are those of its loss.
template <class Terms, class Numbers>
[[nodiscard]] step_report report_of(Numbers const& now, std::int64_t step) {
  step_report report;
  report.step = step;
  for (double const term : now.loss) {
    report.loss += term;
    report.terms.push_back(term);
  }
  report.labels = now.counted[Terms::first_loss];
  report.learning_rate = static_cast<double>(now.optimizer.learning_rate);
  report.gradient_norm = now.gradient_norm;
  return report;
}

/// Room on the device for these numbers, for the squares of each parameter, for the tables of
/// ranges, which are written once, and for what the ranks compare: where the plan has them.
template <class Device, class Optimizer, int Terms>
class step_memory {
  using numbers_type = step_numbers<Optimizer, Terms>;
  static_assert(sizeof(numbers_type) <= number_tables::step_bytes &&
                sizeof(update_range) == number_tables::update_bytes &&
                sizeof(squares_range) == number_tables::squares_bytes);

 public:
  /// `updated`: the ranges of each block that the rank's optimizer updates; `squares`: how many
  /// sums of squares there are.
  [[gnu::cold]] step_memory(Device& device, number_tables const& where,
                            static_vector<std::vector<update_range>, 2> const& updated,
                            std::vector<squares_range> const& squared, int squares)
      : where_(where),
        squares_count_(static_cast<std::size_t>(squares)),
        squared_count_(squared.size()),
        memory_(device.allocate(where.total)) {
    std::size_t begin = 0;
    for (auto const& ranges : updated) {
      updated_.push_back({begin, ranges.size()});
      device.upload(ranges.data(), updated_ranges() + begin, ranges.size() * sizeof(update_range));
      begin += ranges.size();
    }
    device.upload(squared.data(), memory_.data() + where_.squared_at,
                  squared.size() * sizeof(squares_range));
  }

  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }

  [[nodiscard]] numbers_type* numbers() const {
    return reinterpret_cast<numbers_type*>(memory_.data());
  }
  /// Where a plan has slices: what each of them counts, and its loss.
  [[nodiscard]] double* of_slices() const {
    return reinterpret_cast<double*>(memory_.data() + where_.slices_at);
  }
  /// The sums of squares.
  [[nodiscard]] std::span<double> squares() const {
    return {reinterpret_cast<double*>(memory_.data() + where_.squares_at), squares_count_};
  }
  /// The ranges of block `block`.
  [[nodiscard]] std::span<update_range const> updated(int block) const {
    return {updated_ranges() + updated_[block].begin, updated_[block].count};
  }
  [[nodiscard]] std::span<squares_range const> squared() const {
    return {reinterpret_cast<squares_range const*>(memory_.data() + where_.squared_at),
            squared_count_};
  }
  /// The numbers that ranks compare, of all of them.
  [[nodiscard]] std::uint64_t* agreed() const {
    return reinterpret_cast<std::uint64_t*>(memory_.data() + where_.agreed_at);
  }

 private:
  [[nodiscard]] update_range* updated_ranges() const {
    return reinterpret_cast<update_range*>(memory_.data() + where_.updated_at);
  }

  struct table {
    std::size_t begin = 0, count = 0;
  };
  number_tables where_;
  std::size_t squares_count_;
  std::size_t squared_count_;
  static_vector<table, 2> updated_;
  typename Device::arena memory_;
};

}  // namespace plait::execution
