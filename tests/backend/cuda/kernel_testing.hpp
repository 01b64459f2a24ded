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

#if defined(PLAIT_KERNELS_ON_DEVICE)
#include "backend/cuda/kernels_on_device.hpp"
#else
#include "backend/cuda/kernel_emulation.hpp"
#endif
#include "backend/host_maths_testing.hpp"
#include "plait/core/bfloat16.hpp"

// Code that the tests of kernels share. The oracle is host_maths in double, on the numbers that the
// kernel gets, rounded to its type. The tests run on the emulation of a device and, compiled by
// nvcc with PLAIT_KERNELS_ON_DEVICE, on a GPU: a kernel reads and writes only `memory`.

namespace kernel_testing {

#if defined(PLAIT_KERNELS_ON_DEVICE)
using kernels_on_device::device_bytes;
using kernels_on_device::launcher;
inline constexpr bool on_device = true;
#else
using kernel_emulation::device_bytes;
using kernel_emulation::launcher;
inline constexpr bool on_device = false;
#endif

/// A launcher for kernels whose blocks loop over rows. Each block has several rows, as if there
/// were more rows than a grid has blocks.
inline constexpr launcher few_blocks{.most_blocks = 2};

using host_maths_testing::expect_near;
using host_maths_testing::side_by_side;
using host_maths_testing::values;
using plait::accumulate_t;
using plait::bfloat16;

using elements = testing::Types<double, float, bfloat16>;

/// The largest relative error of one rounding to T. Bounds of tests multiply it by the number of
/// roundings and the size of the rounded value.
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

/// Memory for a kernel: `shift` elements after an address that is aligned for vectors, with guards
/// on both sides that must not change.
template <class T>
class memory {
 public:
  explicit memory(std::vector<T> const& values, std::size_t shift = 0)
      : count_(values.size()), begin_(guard + shift), bytes_(guarded(values, shift)) {}
  explicit memory(std::size_t count, std::size_t shift = 0)
      : memory(std::vector<T>(count, static_cast<T>(7)), shift) {}
  memory(memory const&) = delete;
  memory& operator=(memory const&) = delete;
  ~memory() {
    auto const& bytes = bytes_.get();
    std::size_t changed = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      changed += (i < begin_ * sizeof(T) || i >= (begin_ + count_) * sizeof(T)) && bytes[i] != 0xA5;
    EXPECT_EQ(changed, 0u) << "a kernel wrote outside its operand";
  }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes_.data()) + begin_; }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(count_);
    if (count_ > 0)
      std::memcpy(static_cast<void*>(values.data()), bytes_.get().data() + begin_ * sizeof(T),
                  count_ * sizeof(T));
    return values;
  }
  [[nodiscard]] std::vector<double> wide() const { return kernel_testing::wide(get()); }
  /// Returns the only element.
  [[nodiscard]] T value() const { return get().at(0); }

 private:
  static constexpr std::size_t guard = 64 / sizeof(T);

  static std::vector<unsigned char> guarded(std::vector<T> const& values, std::size_t shift) {
    std::vector<unsigned char> bytes((guard + shift + values.size() + guard) * sizeof(T), 0xA5);
    if (!values.empty())
      std::memcpy(&bytes[(guard + shift) * sizeof(T)], values.data(), values.size() * sizeof(T));
    return bytes;
  }

  std::size_t count_, begin_;
  device_bytes bytes_;
};

/// Returns memory with one number.
template <class T>
memory<T> one(T value) {
  return memory<T>(std::vector<T>{value});
}

/// Checks that numbers are equal in the emulation; on a device, whose functions and contracted
/// products differ in the last bits, that they are equal within `bound`.
template <class A, class B>
void expect_same(std::vector<A> const& a, std::vector<B> const& b, double bound) {
  expect_near(a, b, on_device ? bound : 0.0);
}

/// Shifts for aligned memory, and for memory that is off by one element.
inline constexpr std::size_t shifts[] = {0, 1};

struct extents {
  std::size_t rows, columns;
};

}  // namespace kernel_testing
