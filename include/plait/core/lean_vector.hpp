// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail {

/// Allocates a copy of the bytes and returns it; null if there are no bytes.
[[nodiscard]] void* copied_bytes(void const* from, std::size_t bytes);
/// Moves the bytes to an allocation of `room` bytes, frees the old one and returns the new one.
[[nodiscard]] void* moved_bytes(void* from, std::size_t bytes, std::size_t room);
/// Frees an allocation. The destructor of lean_vector calls this function, which is not constexpr:
/// clang omits a constexpr destructor that calls `operator delete` itself, and the memory leaks.
void free_bytes(void* from) noexcept;

}  // namespace plait::detail

namespace plait::ext {

/// A vector for plait's own records and numbers, which takes less compile time than std::vector
/// (measured in docs/benchmarks.md).
///
/// It has only the members that plait uses. Slots between size() and the capacity also hold values:
/// T must have a default constructor, and an erased element is destroyed only when its slot is
/// overwritten or the vector is destroyed.
///
/// Cost:    push_back takes constant time on average; the capacity never shrinks, and resize
///          allocates no more than it needs.
/// Errors:  std::bad_alloc, and exceptions that copying an element throws; some elements may then
///          have been added.
/// Threads: as std::vector.
template <class T>
class lean_vector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = T const*;

  constexpr lean_vector() = default;
  constexpr explicit lean_vector(std::size_t count) : lean_vector() {
    if constexpr (can_be_bytes) {
      resize(count);
    } else if (count > 0) {  // allocates without moving elements, since T may not be movable
      data_ = new T[count]();
      size_ = room_ = count;
    }
  }
  constexpr lean_vector(std::size_t count, T const& value) : lean_vector() {
    reserve(count);
    for (; size_ < count; ++size_) data_[size_] = value;
  }
  constexpr lean_vector(std::initializer_list<T> of) : lean_vector(of.begin(), of.end()) {}
  constexpr lean_vector(T const* first, T const* last) : lean_vector() {
    auto const count = static_cast<std::size_t>(last - first);
    if (can_be_bytes && !__builtin_is_constant_evaluated()) {
      data_ = static_cast<T*>(detail::copied_bytes(first, count * sizeof(T)));
      size_ = room_ = count;
    } else {
      reserve(count);
      for (; first != last; ++first, ++size_) data_[size_] = *first;
    }
  }
  constexpr lean_vector(lean_vector const& of) : lean_vector(of.begin(), of.end()) {}
  constexpr lean_vector(lean_vector&& of) noexcept
      : data_(of.data_), size_(of.size_), room_(of.room_) {
    of.data_ = nullptr;
    of.size_ = of.room_ = 0;
  }
  constexpr lean_vector& operator=(lean_vector of) noexcept {
    swap(of);
    return *this;
  }
  constexpr ~lean_vector() {
    if (can_be_bytes && !__builtin_is_constant_evaluated()) detail::free_bytes(data_);
    else delete[] data_;
  }

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] constexpr T* data() noexcept { return data_; }
  [[nodiscard]] constexpr T const* data() const noexcept { return data_; }
  [[nodiscard]] constexpr T* begin() noexcept { return data_; }
  [[nodiscard]] constexpr T const* begin() const noexcept { return data_; }
  [[nodiscard]] constexpr T* end() noexcept { return data_ + size_; }
  [[nodiscard]] constexpr T const* end() const noexcept { return data_ + size_; }
  [[nodiscard]] constexpr T& operator[](std::size_t i) { return data_[i]; }
  [[nodiscard]] constexpr T const& operator[](std::size_t i) const { return data_[i]; }
  [[nodiscard]] constexpr T& front() { return data_[0]; }
  [[nodiscard]] constexpr T const& front() const { return data_[0]; }
  [[nodiscard]] constexpr T& back() { return data_[size_ - 1]; }
  [[nodiscard]] constexpr T const& back() const { return data_[size_ - 1]; }

  constexpr void swap(lean_vector& other) noexcept {
    T* const data = data_;
    std::size_t const size = size_, room = room_;
    data_ = other.data_, size_ = other.size_, room_ = other.room_;
    other.data_ = data, other.size_ = size, other.room_ = room;
  }
  [[gnu::cold]] constexpr void reserve(std::size_t room) {
    static_assert(std::is_nothrow_move_assignable_v<T>,
                  "lean_vector<T>: the move assignment of T must be noexcept, because the vector "
                  "moves elements when it grows");
    if (room <= room_) return;
    if (can_be_bytes && !__builtin_is_constant_evaluated()) {
      data_ = static_cast<T*>(detail::moved_bytes(data_, size_ * sizeof(T), room * sizeof(T)));
    } else {
      T* const more = new T[room];
      for (std::size_t i = 0; i < size_; ++i) more[i] = std::move(data_[i]);
      delete[] data_;
      data_ = more;
    }
    room_ = room;
  }
  constexpr void push_back(T value) {
    if (size_ == room_) reserve(2 * room_ + 2);
    data_[size_++] = std::move(value);
  }
  constexpr void pop_back() { --size_; }
  constexpr void clear() noexcept { size_ = 0; }
  constexpr void resize(std::size_t count) {
    reserve(count);
    for (std::size_t i = size_; i < count; ++i) data_[i] = T();
    size_ = count;
  }
  /// Inserts `value` at the position `place`, that is, in front of the element there.
  constexpr void insert(T const* place, T value) {
    auto const at = static_cast<std::size_t>(place - data_);
    push_back(std::move(value));
    for (std::size_t i = size_ - 1; i > at; --i) std::swap(data_[i], data_[i - 1]);
  }
  /// Removes the element at the position `place`.
  constexpr void erase(T const* place) {
    for (auto at = static_cast<std::size_t>(place - data_); at + 1 < size_; ++at)
      data_[at] = std::move(data_[at + 1]);
    --size_;
  }

  friend constexpr bool operator==(lean_vector const& a, lean_vector const& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }

 private:
  /// True if elements can be copied as bytes, by one function for all types. Constant evaluation
  /// copies the elements one by one, because it has no untyped memory.
  static constexpr bool can_be_bytes =
      std::is_trivially_copyable_v<T> && std::is_copy_assignable_v<T> &&
      std::is_default_constructible_v<T> && alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__;

  T* data_ = nullptr;
  std::size_t size_ = 0, room_ = 0;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/core/lean_vector.ipp"
#endif
