// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/resize.hpp"

#include <cmath>

namespace plait::detail {

PLAIT_DECL triangle_weights::triangle_weights(std::size_t from, std::size_t to) {
  double const step = static_cast<double>(from) / static_cast<double>(to);
  double const reach = std::max(step, 1.0);
  for (std::size_t i = 0; i < to; ++i) {
    double const centre = (static_cast<double>(i) + 0.5) * step;
    auto const first = static_cast<std::size_t>(std::max(0.0, centre - reach + 0.5));
    auto const end = std::min(from, static_cast<std::size_t>(centre + reach + 0.5));
    places_.push_back({first, weights_.size(), end - first});
    double sum = 0;
    for (std::size_t at = first; at < end; ++at) {
      double const distance = std::abs(static_cast<double>(at) + 0.5 - centre) / reach;
      weights_.push_back(std::max(0.0, 1.0 - distance));
      sum += weights_.back();
    }
    for (std::size_t at = places_.back().weights; at < weights_.size(); ++at) weights_[at] /= sum;
  }
}

}  // namespace plait::detail

namespace plait {

PLAIT_DECL resize::resize(std::size_t shorter) : resize(shorter, shorter) { shorter_ = shorter; }

}  // namespace plait
