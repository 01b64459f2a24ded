// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plait/backend/arguments.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/static_vector.hpp"

namespace plait::execution {

/// The numbers of one step that live in the device's memory: what the host sends before it, what
/// the step works out, and what the host reads after it.
template <class Optimizer>
struct step_numbers {
  double labels = 0;  ///< that count: of this rank, then of the global batch
  double loss_scale = 0;
  double loss = 0;
  double gradient_norm = 0;
  double gradient_scale = 1;
  std::uint32_t step = 0;
  typename Optimizer::numbers optimizer{};
};

/// Room on the device for these numbers, for the squares of each parameter, and for the tables of
/// ranges, which are written once.
template <class Device, class Optimizer>
class step_memory {
  using numbers_type = step_numbers<Optimizer>;

 public:
  /// `updated`: the ranges of each block that the rank's optimizer updates.
  [[gnu::cold]] step_memory(Device& device,
                            static_vector<std::vector<update_range>, 2> const& updated,
                            std::vector<squares_range> const& squared, int parameters)
      : squares_count_(static_cast<std::size_t>(parameters)), squared_count_(squared.size()) {
    std::size_t next = sizeof(numbers_type);
    auto const take = [&next](std::size_t bytes) {
      std::size_t const at = (next + 63) / 64 * 64;
      next = at + bytes;
      return at;
    };
    squares_at_ = take(squares_count_ * sizeof(double));
    for (auto const& ranges : updated)
      updated_.push_back({take(ranges.size() * sizeof(update_range)), ranges.size()});
    squared_at_ = take(squared.size() * sizeof(squares_range));
    memory_ = device.allocate(next);
    for (int i = 0; i < updated.size(); ++i)
      device.upload(updated[i].data(), memory_.data() + updated_[i].at,
                    updated[i].size() * sizeof(update_range));
    device.upload(squared.data(), memory_.data() + squared_at_,
                  squared.size() * sizeof(squares_range));
  }

  [[nodiscard]] numbers_type* numbers() const {
    return reinterpret_cast<numbers_type*>(memory_.data());
  }
  /// One number for each parameter of the model.
  [[nodiscard]] std::span<double> squares() const {
    return {reinterpret_cast<double*>(memory_.data() + squares_at_), squares_count_};
  }
  /// The ranges of block `block`.
  [[nodiscard]] std::span<update_range const> updated(int block) const {
    return {reinterpret_cast<update_range const*>(memory_.data() + updated_[block].at),
            updated_[block].count};
  }
  [[nodiscard]] std::span<squares_range const> squared() const {
    return {reinterpret_cast<squares_range const*>(memory_.data() + squared_at_), squared_count_};
  }

 private:
  struct table {
    std::size_t at = 0, count = 0;
  };
  std::size_t squares_count_;
  std::size_t squared_count_;
  std::size_t squares_at_ = 0, squared_at_ = 0;
  static_vector<table, 2> updated_;
  typename Device::arena memory_{};
};

}  // namespace plait::execution
