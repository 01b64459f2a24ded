// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "backend/cuda/kernel_emulation.hpp"
#include "backend/host_maths_testing.hpp"
#include "plait/core/bfloat16.hpp"

// What the tests of kernels share. The oracle is host_maths in double, given the same numbers that
// the kernel gets, rounded to its type.

namespace kernel_testing {

using host_maths_testing::expect_near;
using host_maths_testing::values;
using kernel_emulation::launcher;
using plait::accumulate_t;
using plait::bfloat16;

using elements = testing::Types<double, float, bfloat16>;

/// Largest relative error of one rounding to T. In the bounds of the tests it is multiplied by the
/// number of roundings and the size of what is rounded.
template <class T>
inline constexpr double rounding = sizeof(T) == 2   ? 1.0 / 256
                                   : sizeof(T) == 4 ? 1.0 / (1 << 23)
                                                    : 1.0 / (1LL << 51);

template <class T>
std::vector<double> wide(std::vector<T> const& x) {
  std::vector<double> result;
  for (T const value : x) {
    if constexpr (std::is_arithmetic_v<T>) result.push_back(static_cast<double>(value));
    else result.push_back(static_cast<double>(static_cast<float>(value)));
  }
  return result;
}

/// Memory as a kernel sees it: `shift` elements behind an address that fits vectors, with guards on
/// both sides that must not change.
template <class T>
class memory {
 public:
  explicit memory(std::vector<T> const& values, std::size_t shift = 0)
      : count_(values.size()),
        begin_(guard + shift),
        bytes_((guard + shift + count_ + guard) * sizeof(T), 0xA5) {
    if (count_ > 0) std::memcpy(static_cast<void*>(data()), values.data(), count_ * sizeof(T));
  }
  explicit memory(std::size_t count, std::size_t shift = 0)
      : memory(std::vector<T>(count, static_cast<T>(7)), shift) {}
  memory(memory const&) = delete;
  memory& operator=(memory const&) = delete;
  ~memory() {
    std::size_t changed = 0;
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      changed +=
          (i < begin_ * sizeof(T) || i >= (begin_ + count_) * sizeof(T)) && bytes_[i] != 0xA5;
    EXPECT_EQ(changed, 0u) << "a kernel wrote outside its operand";
  }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes_.data()) + begin_; }
  [[nodiscard]] std::vector<T> get() { return std::vector<T>(data(), data() + count_); }
  [[nodiscard]] std::vector<double> wide() { return kernel_testing::wide(get()); }

 private:
  static constexpr std::size_t guard = 64 / sizeof(T);
  std::size_t count_, begin_;
  std::vector<unsigned char> bytes_;
};

/// Aligned, and one element off.
inline constexpr std::size_t shifts[] = {0, 1};

struct extents {
  std::size_t rows, columns;
};

}  // namespace kernel_testing
