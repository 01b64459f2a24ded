// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/run/exchange_runner.hpp"

namespace plait::execution {

/// What must be the same on all ranks: named numbers, and a yes or no for each parameter tensor of
/// the model.
class agreement {
 public:
  /// `subject` is what the numbers are of, for messages: "trainer 1".
  [[gnu::cold]] agreement(std::string subject, std::size_t numbers)
      : subject_(std::move(subject)), bits_(numbers) {}

  template <class Number>
  [[gnu::cold]] void add(std::string name, Number value) {
    if (names_.size() == agreed_fields)
      throw error("agreement: " + subject_ + " has more than " + std::to_string(agreed_fields) +
                  " numbers; '" + name + "' is one too many");
    constexpr bool is_real = std::is_floating_point_v<Number>;
    // Zeros are equal whatever their sign.
    if constexpr (is_real)
      bits_[names_.size()] = value == 0 ? 0 : std::bit_cast<std::uint64_t>(double{value});
    else bits_[names_.size()] = static_cast<std::uint64_t>(value);
    names_.push_back(std::move(name));
    is_real_ = is_real_ << 1 | (is_real ? 1u : 0u);
  }
  /// The yes or no of a parameter tensor, by its number in the model.
  [[gnu::cold]] void mark(int parameter) {
    auto const at = static_cast<std::size_t>(parameter);
    bits_[agreed_fields + at / 64] |= std::uint64_t{1} << at % 64;
  }

  /// This rank's numbers.
  [[nodiscard]] std::vector<std::uint64_t> const& mine() const { return bits_; }

  /// Compares the numbers of all ranks, `all`, one rank behind the other. `marked` and `unmarked`
  /// say what the marks mean, parameter(i) names parameter tensor i.
  ///
  /// Errors: input_error that names the first number that differs, with both values.
  template <class Parameter>
  [[gnu::cold]] void require_equal(std::vector<std::uint64_t> const& all, char const* marked,
                                   char const* unmarked, Parameter parameter) const {
    std::size_t const numbers = bits_.size();
    for (std::size_t i = 0; i < numbers; ++i)
      for (std::size_t rank = 1; rank < all.size() / numbers; ++rank) {
        auto const first = all[i], other = all[rank * numbers + i];
        if (first == other) continue;
        if (i < agreed_fields) fail(names_[i], text(i, first), text(i, other), rank);
        int const bit = std::countr_zero(first ^ other);
        bool const is_marked = (first >> bit & 1) != 0;
        fail("parameter '" + parameter(static_cast<int>(64 * (i - agreed_fields)) + bit) + "'",
             is_marked ? marked : unmarked, is_marked ? unmarked : marked, rank);
      }
  }

 private:
  [[noreturn]] [[gnu::cold]] void fail(std::string const& what, std::string const& first,
                                       std::string const& other, std::size_t rank) const {
    throw input_error(subject_ + ": the ranks differ in " + what + ": " + first + " on rank 0, " +
                      other + " on rank " + std::to_string(rank) +
                      "; what trains together must be made with the same numbers on every rank");
  }
  [[nodiscard]] std::string text(std::size_t field, std::uint64_t bits) const {
    if ((is_real_ >> (names_.size() - 1 - field) & 1) == 0) return std::to_string(bits);
    char out[32];
    std::snprintf(out, sizeof out, "%.17g", std::bit_cast<double>(bits));
    char shorter[32];
    std::snprintf(shorter, sizeof shorter, "%.6g", std::bit_cast<double>(bits));
    return std::strtod(shorter, nullptr) == std::bit_cast<double>(bits) ? shorter : out;
  }

  std::string subject_;
  std::vector<std::string> names_{};
  std::vector<std::uint64_t> bits_;
  std::uint64_t is_real_ = 0;
};

/// The numbers of all ranks, one rank behind the other: the row of the plan's list for the set-up.
///
/// `room`: on the device, for all of them.
template <class Plan, class Rank>
[[gnu::cold]] std::vector<std::uint64_t> numbers_of_all(Rank& rank,
                                                        std::vector<std::uint64_t> const& mine,
                                                        std::uint64_t* room) {
  if (rank.world_size() == 1) return mine;
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(rank.world_size()));
  std::copy(mine.begin(), mine.end(),
            all.begin() + static_cast<std::ptrdiff_t>(mine.size()) * rank.world_rank());
  std::size_t const bytes = all.size() * sizeof(std::uint64_t);
  auto& device = rank.device();
  exchange_runner<Rank> const exchanges(rank, exchanges_on<Plan>(rank, {}, job_part::set_up));
  device.upload(all.data(), room, bytes);
  device.synchronize();
  for (auto const& row : exchanges.at(exchange_place::agreement)) exchanges.run_sum(row, room);
  device.synchronize();
  device.download(room, all.data(), bytes);
  device.synchronize();
  return all;
}

}  // namespace plait::execution
