// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/row_operands.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "plait/core/concat.hpp"

namespace plait::testing::detail {

// The number of guard bytes around each operand. A kernel must not change these bytes, nor the
// bytes of gaps between rows.
inline constexpr std::size_t guard_bytes = 64;
inline constexpr std::byte guard_byte{0x5A};

PLAIT_DECL std::size_t bytes_of(element_kind kind) {
  switch (kind) {
    case element_kind::float32: return sizeof(float);
    case element_kind::float64: return sizeof(double);
    case element_kind::int32:
    case element_kind::uint32: return sizeof(std::int32_t);
    case element_kind::bytes: return 1;
  }
  return 1;
}

PLAIT_DECL std::string name_of_call(operation::row const& of, row_setting const& how,
                                    element_kind kind) {
  return ext::concat(
      {of.name, how.variant, kind == element_kind::float32 ? " of float" : " of double"});
}

PLAIT_DECL std::string name_with_extents(operation::row const& of, row_setting const& how,
                                         element_kind kind) {
  return ext::concat({name_of_call(of, how, kind), how.lengths['z'] == 1 ? ", extents of 1" : ""});
}

PLAIT_DECL std::size_t row_operand::end() const { return offset + count() * bytes_of(kind); }

// Returns an element of an operand as a double.
PLAIT_DECL double element_at(std::byte const* memory, row_operand const& of, std::size_t index) {
  auto const read = [&](auto value) {
    std::memcpy(&value, memory + of.offset + index * sizeof value, sizeof value);
    return static_cast<double>(value);
  };
  switch (of.kind) {
    case element_kind::float32: return read(0.0f);
    case element_kind::float64: return read(0.0);
    case element_kind::int32: return read(std::int32_t{});
    case element_kind::uint32: return read(std::uint32_t{});
    case element_kind::bytes: return read(static_cast<unsigned char>(0));
  }
  return 0;
}

// Returns true if a name is in a list of names separated by spaces.
PLAIT_DECL bool names(std::string const& list, std::string const& name) {
  return ext::concat({" ", list, " "}).find(ext::concat({" ", name, " "})) != std::string::npos;
}

PLAIT_DECL row_operands::row_operands(operation::row const& of, row_setting const& how,
                                      std::span<element_kind const> kinds) {
  operation::row const as_given{of.name, how.text != nullptr ? how.text : of.text};
  auto const indices = operation::signature::of(as_given.text);
  std::size_t end = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    auto const& is = indices.operands[i];
    auto const [name, size] = as_given.name_of(static_cast<int>(i));
    row_operand one{.name = std::string(name, std::size_t(size)),
                    .kind = kinds[i],
                    .is_written = is.is_written,
                    .is_added_to = is.is_added_to,
                    .offset = (end + 2 * guard_bytes - 1) / guard_bytes * guard_bytes,
                    .rows = how.lengths[is.rows.index] * std::size_t(is.rows.parts),
                    .columns = how.lengths[is.columns.index] * std::size_t(is.columns.parts)};
    one.stride = one.columns + (names(how.gaps, one.name) ? gap : 0);
    end = one.end();
    operands_.push_back(one);
  }
  bytes_.assign(end + guard_bytes, guard_byte);
  for (std::size_t i = 0; i < operands_.size(); ++i) fill(operands_[i], i, how);
}

PLAIT_DECL void row_operands::fill(row_operand const& of, std::size_t number,
                                   row_setting const& how) {
  // These operands must be positive, because the kernel computes a root, a logarithm or a quotient
  // of them.
  bool const is_positive = names("variance squares terms count", of.name);
  auto const put = [&](std::size_t index, auto value) {
    std::memcpy(bytes_.data() + of.offset + index * sizeof value, &value, sizeof value);
  };
  for (std::size_t r = 0; r < of.rows; ++r)
    for (std::size_t c = 0; c < of.columns; ++c) {
      std::size_t const at = r * of.stride + c, mixed = (at * 379 + number * 131 + 57) % 1021;
      double value = static_cast<double>(mixed) / 256 - 2;  // in [-2, 2), exact in float
      if (is_positive) value = std::abs(value) + 0.25;
      if (of.name == how.nan) value = std::numeric_limits<double>::quiet_NaN();
      if (of.is_written && !of.is_added_to) {
        std::memset(bytes_.data() + of.offset + at * bytes_of(of.kind), 0xFF, bytes_of(of.kind));
        continue;
      }
      // A place without a sample has a negative label.
      bool const has_no_sample = of.name == "labels" && at % 4 == 3;
      switch (of.kind) {
        case element_kind::float32: put(at, static_cast<float>(value)); break;
        case element_kind::float64: put(at, value); break;
        case element_kind::int32:
          put(at, has_no_sample ? -1 : static_cast<std::int32_t>(at * 7 + 1) % how.below);
          break;
        case element_kind::uint32: put(at, static_cast<std::uint32_t>(at + 3)); break;
        case element_kind::bytes: put(at, static_cast<unsigned char>(mixed)); break;
      }
    }
}

PLAIT_DECL void row_operands::compare(check_report& report, std::string const& where,
                                      std::byte const* expected, std::byte const* got,
                                      double tolerance) const {
  for (auto const& one : operands_)
    compare_operand(report, where, one, one.is_written ? expected : bytes_.data(), got, tolerance);
  compare_guards(report, where, got);
}

PLAIT_DECL void row_operands::compare_operand(check_report& report, std::string const& where,
                                              row_operand const& of, std::byte const* expected,
                                              std::byte const* got, double tolerance) const {
  std::vector<double> wanted, found;
  for (std::size_t i = 0; i < of.count(); ++i) {
    wanted.push_back(element_at(expected, of, i));
    found.push_back(element_at(got, of, i));
    bool const is_same = wanted[i] == found[i] || (std::isnan(wanted[i]) && std::isnan(found[i]));
    if (is_same) wanted[i] = found[i] = std::isfinite(wanted[i]) ? wanted[i] : 0;
    // Elements in gaps between rows must not change, and do not count for the error bound.
    bool const is_between = of.stride != 0 && i % of.stride >= of.columns;
    if (is_between) wanted[i] = 0, found[i] = is_same ? 0 : std::numeric_limits<double>::infinity();
  }
  double const rounding = of.kind == element_kind::float32
                              ? double(std::numeric_limits<float>::epsilon())
                              : std::numeric_limits<double>::epsilon();
  double const bound = of.is_written ? tolerance * rounding * std::max(1.0, largest(wanted)) : 0.0;
  char const* const law = !of.is_written ? "a kernel must not change the operands that it reads"
                          : of.is_added_to
                              ? "a kernel must compute the same as the host's kernel, which adds "
                                "to the previous values of the operand"
                              : "a kernel must compute the same as the host's kernel, and must not "
                                "read the previous values of the operand, which are nan";
  testing::detail::compare(report, where, {of.name, of.stride, of.count()}, wanted, found, bound,
                           law);
}

PLAIT_DECL void row_operands::compare_guards(check_report& report, std::string const& where,
                                             std::byte const* got) const {
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= operands_.size(); ++i) {
    bool const is_last = i == operands_.size();
    std::size_t const end = is_last ? bytes_.size() : operands_[i].offset;
    auto const* const wrong =
        std::find_if(got + begin, got + end, [](std::byte one) { return one != guard_byte; });
    if (wrong != got + end) {
      auto const distance = static_cast<std::size_t>(wrong - (got + begin));
      bool const is_before = i == 0 || (!is_last && distance >= guard_bytes);
      report.failures.push_back(
          ext::concat({where, ": ", operands_[is_before ? i : i - 1].name,
                       ": a kernel must write nothing next to its operands: it wrote byte ",
                       is_before ? static_cast<std::size_t>(got + end - wrong) : distance + 1,
                       is_before ? " before the first element" : " after the last element"}));
    }
    if (!is_last) begin = operands_[i].end();
  }
}

}  // namespace plait::testing::detail
