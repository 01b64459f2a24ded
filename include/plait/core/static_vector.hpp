// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A view of the elements of a static_vector or of an array, of any capacity. It takes less compile
/// time than std::span.
template <class T>
struct static_view {
  T const* first = nullptr;
  int count = 0;

  [[nodiscard]] constexpr int size() const { return count; }
  constexpr T const& operator[](int index) const { return first[index]; }
  [[nodiscard]] constexpr T const* begin() const { return first; }
  [[nodiscard]] constexpr T const* end() const { return first + count; }
};

/// A vector that stores up to `Capacity` elements within the object and allocates nothing, so that
/// a plan can be a compile-time constant.
template <class T, int Capacity>
struct static_vector {
  static constexpr int capacity = Capacity > 0 ? Capacity : 1;
  std::array<T, static_cast<std::size_t>(capacity)> elements{};
  int count = 0;

  constexpr void push_back(T const& value) {
    elements.at(static_cast<std::size_t>(count)) = value;
    ++count;
  }
  [[nodiscard]] constexpr int size() const { return count; }
  constexpr T& operator[](int index) { return elements[static_cast<std::size_t>(index)]; }
  constexpr T const& operator[](int index) const {
    return elements[static_cast<std::size_t>(index)];
  }
  constexpr T& back() { return (*this)[count - 1]; }
  constexpr T const* begin() const { return elements.data(); }
  constexpr T const* end() const { return elements.data() + count; }
  [[nodiscard]] constexpr static_view<T> view() const { return {elements.data(), count}; }
  constexpr T* begin() { return elements.data(); }
  constexpr T* end() { return elements.data() + count; }
};

}  // namespace plait::ext
