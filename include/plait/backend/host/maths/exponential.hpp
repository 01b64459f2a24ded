// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "plait/backend/host/maths/lanes.hpp"
#include "plait/core/macros.hpp"

namespace plait::host_maths {

/// e^x for loops over many elements: in double it is std::exp; in float it is branch-free, so that
/// loops which call it are vectorised.
///
/// In float: relative error at most 2e-7 (1.7 ulp) for -87 <= x <= 88; 0 below (the true value is
/// under 1.7e-38); e^88 above, where a softmax never comes as its argument is at most 0; NaN stays.
PLAIT_HOST_DEVICE inline double exponential(double x) { return std::exp(x); }

/// \overload
PLAIT_HOST_DEVICE inline float exponential(float x) {
#if defined(__CUDA_ARCH__)
  return ::expf(x);
#else
  constexpr float lowest = -87.0f;
  constexpr float highest = 88.0f;
  float const clamped = choose(x < lowest, lowest, choose(x > highest, highest, x));
  // e^x = 2^n e^r with whole n and |r| <= ln(2)/2. Adding 1.5 * 2^23 rounds to a whole number and
  // leaves that number in the low bits.
  constexpr float rounder = 12582912.0f;
  float const shifted = clamped * 1.44269504f + rounder;
  float const n = shifted - rounder;
  float const r = (clamped - n * 0.693145752f) - n * 1.42860677e-6f;  // ln(2) in two parts
  float e_r = 1.0f / 5040;                                            // Taylor up to r^7
  e_r = e_r * r + 1.0f / 720;
  e_r = e_r * r + 1.0f / 120;
  e_r = e_r * r + 1.0f / 24;
  e_r = e_r * r + 1.0f / 6;
  e_r = e_r * r + 0.5f;
  e_r = e_r * r + 1.0f;
  e_r = e_r * r + 1.0f;
  std::uint32_t const two_to_n = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  return choose(x < lowest, 0.0f, e_r * std::bit_cast<float>(two_to_n));
#endif
}

}  // namespace plait::host_maths
