// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/backend/arguments.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/plan/memory.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait::execution {

/// The numbers of one step in the device's memory. The host uploads some of these numbers before
/// the step, the operations of the step compute the others, and the host reads all of them after
/// the step.
template <class Optimizer, int Terms>
struct step_scalars {
  using terms = std::array<double, std::size_t(Terms)>;
  terms label_count{};  ///< the count of each term: first for this rank, then for the global batch
  terms loss_scale{};   ///< the weight of each term / the term's count
  terms loss{};
  double stop = 0;  ///< the votes to stop, which ranks sum together with the loss; see stop_summand
  double gradient_norm = 0;
  double gradient_scale = 1;
  std::uint32_t step = 0;
  std::uint32_t skipped = 0;  ///< number of steps whose update was left out; counted on the host
  typename Optimizer::numbers optimizer{};
};

/// Returns the report of step `step` from the numbers of the step, which the host has read.
/// `Terms`: loss_terms of the job.
template <class Terms, class Numbers>
[[nodiscard]] step_report report_of(Numbers const& now, std::int64_t step) {
  step_report report;
  report.step = report.gradient_step = step;
  for (double const term : now.loss) {
    report.loss += term;
    report.terms.push_back(term);
  }
  report.labels = now.label_count[Terms::first_loss];
  report.learning_rate = static_cast<double>(now.optimizer.learning_rate);
  report.gradient_norm = now.gradient_norm;
  report.skipped = now.skipped;
  return report;
}

/// The memory of a trainer for small numbers and tables on the device, at the offsets that the plan
/// determines. It contains the step_scalars, the sums of squares of each parameter's gradient, the
/// numbers that ranks compare, and the tables of ranges. These tables change when ages of optimizer
/// states change. The optimizer's numbers for younger states follow the step_scalars, where the
/// plan leaves memory for about 12 ages of AdamW. More ages get separate memory.
template <class Device, class Optimizer, int Terms>
class step_memory {
  using numbers_type = step_scalars<Optimizer, Terms>;
  using optimizer_numbers = typename Optimizer::numbers;
  static_assert(sizeof(numbers_type) <= number_tables::step_bytes &&
                sizeof(update_range) == number_tables::update_bytes &&
                sizeof(squares_range) == number_tables::squares_bytes);

 public:
  /// `squares`: the number of sums of squares; `squared`: the ranges of gradients that this rank
  /// squares.
  [[gnu::cold]] step_memory(Device& device, number_tables const& where,
                            lean_vector<squares_range> const& squared, int squares);

  /// `updated`: the ranges of each block that the rank's optimizer updates; `ages`: the number of
  /// different ages of their states.
  [[gnu::cold]] void lay_out_updates(Device& device,
                                     lean_vector<lean_vector<update_range>> const& updated,
                                     std::size_t ages);

  [[nodiscard]] std::size_t bytes() const { return memory_.size() + more_.size(); }

  [[nodiscard]] numbers_type* numbers() const { return at<numbers_type>(0); }
  /// Returns the optimizer's numbers for states of one age, by its index; 0: the oldest.
  [[nodiscard]] optimizer_numbers* numbers_of_age(std::size_t age) const {
    return age == 0 ? &numbers()->optimizer : younger_ + (age - 1);
  }
  /// Returns the memory for the counts and the losses of each slice, in a plan with slices.
  [[nodiscard]] double* of_slices() const { return slices_; }
  /// Returns the memory for the sums of squares of the gradients.
  [[nodiscard]] std::span<double> norm_partials() const { return squares_; }
  /// Returns the ranges, with their factors, of the block with index `block`.
  [[nodiscard]] std::span<update_range const> updated(std::size_t block) const {
    return updated_[block];
  }
  [[nodiscard]] std::span<squares_range const> squared() const { return squared_; }
  /// Returns the table in which ranks exchange the numbers that they compare, with a row for each
  /// rank.
  [[nodiscard]] std::uint64_t* agreed() const { return agreed_; }

 private:
  template <class T>
  [[nodiscard]] T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }

  typename Device::arena memory_, more_{};
  optimizer_numbers* younger_ = nullptr;
  update_range* ranges_;
  double* slices_;
  std::span<double> squares_;
  std::span<squares_range> squared_;
  std::uint64_t* agreed_;
  lean_vector<std::span<update_range const>> updated_;
};

template <class Device, class Optimizer, int Terms>
step_memory<Device, Optimizer, Terms>::step_memory(Device& device, number_tables const& where,
                                                   lean_vector<squares_range> const& squared,
                                                   int squares)
    : memory_(device.allocate(where.total)),
      ranges_(at<update_range>(where.updated_at)),
      slices_(at<double>(where.slices_at)),
      squares_(at<double>(where.norm_partials_at), static_cast<std::size_t>(squares)),
      squared_(at<squares_range>(where.squared_at), squared.size()),
      agreed_(at<std::uint64_t>(where.compared_at)) {
  device.upload(squared.data(), squared_.data(), squared.size() * sizeof(squares_range));
}

template <class Device, class Optimizer, int Terms>
void step_memory<Device, Optimizer, Terms>::lay_out_updates(
    Device& device, lean_vector<lean_vector<update_range>> const& updated, std::size_t ages) {
  updated_.clear();
  auto* next = ranges_;
  for (auto const& ranges : updated) {
    updated_.push_back({next, ranges.size()});
    device.upload(ranges.data(), next, ranges.size() * sizeof(update_range));
    next += ranges.size();
  }
  more_ = {};
  younger_ = reinterpret_cast<optimizer_numbers*>(numbers() + 1);
  if (ages - 1 <= (number_tables::step_bytes - sizeof(numbers_type)) / sizeof(optimizer_numbers))
    return;
  more_ = device.allocate((ages - 1) * sizeof(optimizer_numbers));
  younger_ = reinterpret_cast<optimizer_numbers*>(more_.data());
}

}  // namespace plait::execution
