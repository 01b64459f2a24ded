// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/matrix.hpp"
#include "plait/core/header_only.hpp"
#include "plait/operation/row.hpp"
#include "plait/testing/report.hpp"

// The operands with which check_device runs an operation: their shapes, their values, and a
// comparison of the results of two devices.
namespace plait::testing::detail {

/// The length of each index of an operation.
class index_lengths {
 public:
  explicit constexpr index_lengths(std::size_t all) { of_.fill(all); }
  constexpr std::size_t operator[](char index) const {
    return index == '1' ? 1 : of_[std::size_t(index - 'a')];
  }
  /// Returns these lengths with another length for one index.
  [[nodiscard]] constexpr index_lengths with(char index, std::size_t length) const {
    auto out = *this;
    out.of_[std::size_t(index - 'a')] = length;
    return out;
  }

 private:
  std::array<std::size_t, 26> of_{};
};

/// The settings of one run of an operation: the shapes and values of its operands. The other
/// arguments of the kernel are passed separately.
struct row_setting {
  index_lengths lengths;
  /// The indices of the operands of the queue's call, if they differ from the indices of the
  /// operation.
  char const* text = nullptr;
  char const* variant = "";  ///< name of a variant, which reports append to the operation's name
  std::string gaps{};        ///< names of operands that have gaps between their rows
  std::int32_t below = 1;    ///< integers are labels or row numbers below this number
  std::string nan{};         ///< name of an operand whose elements are NaN
};

enum class element_kind { float32, float64, int32, uint32, bytes };

template <class T>
consteval element_kind kind_of_element() {
  using element = std::remove_const_t<T>;
  if constexpr (std::is_same_v<element, float>) return element_kind::float32;
  else if constexpr (std::is_same_v<element, double>) return element_kind::float64;
  else if constexpr (std::is_same_v<element, std::int32_t>) return element_kind::int32;
  else if constexpr (std::is_same_v<element, std::uint32_t>) return element_kind::uint32;
  else return element_kind::bytes;
}

/// Returns the name of a call in reports, such as "matmul with an epilogue of float".
std::string name_of_call(operation::row const& of, row_setting const& how, element_kind kind);

/// Returns the name of a call in reports, with an addition if each index has only one element.
std::string name_with_extents(operation::row const& of, row_setting const& how, element_kind kind);

/// An operand within a block of memory.
struct row_operand {
  std::string name;
  element_kind kind = element_kind::float32;
  bool is_written = false, is_added_to = false;
  std::size_t offset = 0;  ///< offset of the operand in bytes
  std::size_t rows = 0, columns = 0, stride = 0;

  /// The number of elements from the first element to the last, including gaps.
  [[nodiscard]] std::size_t count() const { return (rows - 1) * stride + columns; }
  [[nodiscard]] std::size_t end() const;
};

/// The memory of one call of a kernel: its operands, each between guard bytes.
///
/// Operands that are read or added to have values of both signs. In operands that are only written,
/// all bits are set at first, so their elements are NaN.
class row_operands {
 public:
  static constexpr std::size_t gap = 3;  ///< elements after each row of an operand that has gaps

  /// `kinds`: the type of the elements of each operand.
  row_operands(operation::row const& of, row_setting const& how,
               std::span<element_kind const> kinds);

  [[nodiscard]] std::vector<std::byte> const& bytes() const { return bytes_; }

  /// Returns operand `number` in `memory`, which is a copy of bytes().
  template <class T>
  [[nodiscard]] ext::matrix<T> operand(std::byte* memory, std::size_t number) const {
    auto const& of = operands_[number];
    return {reinterpret_cast<T*>(memory + of.offset), of.rows, of.columns, of.stride};
  }

  /// Adds a failure for each operand that differs from `expected`, and for bytes between operands
  /// that have changed. `tolerance`: the largest difference, in epsilons of the largest element.
  void compare(check_report& report, std::string const& where, std::byte const* expected,
               std::byte const* got, double tolerance) const;

 private:
  void fill(row_operand const& of, std::size_t number, row_setting const& how);
  void compare_operand(check_report& report, std::string const& where, row_operand const& of,
                       std::byte const* expected, std::byte const* got, double tolerance) const;
  void compare_guards(check_report& report, std::string const& where, std::byte const* got) const;

  std::vector<row_operand> operands_;
  std::vector<std::byte> bytes_;
};

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/row_operands.ipp"
#endif
