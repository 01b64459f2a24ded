// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/operation_order.hpp"

#include <numeric>

namespace plait::detail {

PLAIT_DECL operation_order::operation_order(std::size_t ranks, simulated_order order,
                                            std::uint64_t seed)
    : state_(seed),
      is_adversarial_(order == simulated_order::adversarial),
      by_urgency_(ranks * streams) {
  std::iota(by_urgency_.begin(), by_urgency_.end(), std::size_t{0});
  if (!is_adversarial_) return;
  constexpr std::uint64_t stretches[]{1, 8, 64, 1024};
  stretch_ = stretches[below(4)];
  how_ = static_cast<grouping>(below(3));
  wakes_early_ = below(2) == 0;
  draw();
}

PLAIT_DECL std::uint64_t operation_order::random() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

PLAIT_DECL void operation_order::draw() {
  shuffle(by_urgency_);
  if (how_ == grouping::none) return;
  auto const group_of = [this](std::size_t stream) {
    return how_ == grouping::rank ? stream / streams : stream % streams;
  };
  groups_.resize(how_ == grouping::rank ? by_urgency_.size() / streams : streams);
  std::iota(groups_.begin(), groups_.end(), std::size_t{0});
  shuffle(groups_);
  shuffled_ = by_urgency_;
  by_urgency_.clear();
  for (auto const group : groups_)
    for (auto const stream : shuffled_)
      if (group_of(stream) == group) by_urgency_.push_back(stream);
}

}  // namespace plait::detail
