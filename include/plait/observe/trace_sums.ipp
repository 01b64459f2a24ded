// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/observe/trace_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace plait::execution {

PLAIT_DECL void trace_sums::add(std::uint64_t index, double element) {
  ++count_;
  if (std::isnan(element)) element = std::numeric_limits<double>::quiet_NaN();
  hash_ += mix(mix(index + 0x9e3779b97f4a7c15u) ^ std::bit_cast<std::uint64_t>(element));
  if (!(std::fabs(element) < 0x1p128)) {
    ++left_out_;
    return;
  }
  sum_.add(element);
  squares_.add(element * element);
  weighted_.add(weight(index) * element);
}

PLAIT_DECL void trace_sums::add(word_list const& other) {
  count_ += other[0];
  left_out_ += other[1];
  hash_ += other[2];
  std::array<std::uint64_t, detail::exact_sum::words> part{};
  auto from = other.begin() + 3;
  for (auto* const into : {&sum_, &squares_, &weighted_}) {
    std::copy_n(from, part.size(), part.begin());
    into->add(part);
    from += part.size();
  }
}

PLAIT_DECL trace_sums::word_list trace_sums::to_words() const {
  word_list out{count_, left_out_, hash_};
  auto into = out.begin() + 3;
  for (auto const* const from : {&sum_, &squares_, &weighted_})
    into = std::copy(from->integer().begin(), from->integer().end(), into);
  return out;
}

PLAIT_DECL double trace_sums::sum() const {
  return left_out_ > 0 ? std::numeric_limits<double>::quiet_NaN() : sum_.value();
}

PLAIT_DECL double trace_sums::norm() const {
  return left_out_ > 0 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(squares_.value());
}

PLAIT_DECL double trace_sums::weighted_sum() const {
  return left_out_ > 0 ? std::numeric_limits<double>::quiet_NaN() : weighted_.value();
}

PLAIT_DECL double trace_sums::weight(std::uint64_t index) {
  auto const bits = std::bit_cast<std::int64_t>(mix(index + 0x9e3779b97f4a7c15u));
  return static_cast<double>(bits) * 0x1p-63;
}

}  // namespace plait::execution
