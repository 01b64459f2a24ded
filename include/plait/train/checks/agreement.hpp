// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/plan/schedule/exchanges.hpp"
#include "plait/run/run_rows.hpp"

namespace plait::execution {

/// What must be the same on all ranks: named numbers.
class agreement {
 public:
  /// `subject` is what the numbers are of, for messages: "trainer 1".
  [[gnu::cold]] explicit agreement(std::string subject)
      : subject_(std::move(subject)), bits_(agreed_fields) {}

  template <class Number>
  void add(std::string_view name, Number value) {
    // Zeros are equal whatever their sign.
    if constexpr (std::is_floating_point_v<Number>)
      add_bits(name, value == 0 ? 0 : std::bit_cast<std::uint64_t>(double{value}), true);
    else add_bits(name, static_cast<std::uint64_t>(value), false);
  }

  /// This rank's numbers.
  [[nodiscard]] std::vector<std::uint64_t> const& mine() const { return bits_; }

  /// The name of the first number that differs between the ranks; empty if none does. `all`: the
  /// numbers of all ranks, one rank behind the other.
  [[nodiscard]] [[gnu::cold]] std::string first_difference(
      std::vector<std::uint64_t> const& all) const;
  /// How a rank differs from a reference, with both values; "" if it does not.
  [[nodiscard]] [[gnu::cold]] std::string difference(std::vector<std::uint64_t> const& all,
                                                     int rank, int reference) const;
  /// Errors: input_error that names the first number that differs, with both values.
  [[gnu::cold]] void require_equal(std::vector<std::uint64_t> const& all) const;

 private:
  struct place {
    std::size_t field = 0, rank = 0;
  };
  /// The first field that differs and the first rank that has another number than rank 0, or rank
  /// 0.
  [[nodiscard]] [[gnu::cold]] place difference_in(std::vector<std::uint64_t> const& all) const;
  [[gnu::cold]] void add_bits(std::string_view name, std::uint64_t bits, bool is_real);
  [[nodiscard]] [[gnu::cold]] std::string text(std::size_t field, std::uint64_t bits) const;

  std::string subject_;
  std::vector<std::string> names_{};
  std::vector<std::uint64_t> bits_;
  std::uint64_t is_real_ = 0;
};

/// Where the ranks of a plan compare numbers: by its list for the set-up, in room on the device for
/// the numbers of all of them.
struct agreement_room {
  lean_vector<exchange> list;
  std::uint64_t* data;
};

/// The numbers of all ranks, one rank behind the other.
///
/// Moves: the row of the list.
template <class Rank>
[[gnu::cold]] std::vector<std::uint64_t> numbers_of_all(Rank& rank, agreement_room const& room,
                                                        std::vector<std::uint64_t> const& mine) {
  if (rank.world_size() == 1) return mine;
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(rank.world_size()));
  std::copy(mine.begin(), mine.end(),
            all.begin() + static_cast<std::ptrdiff_t>(mine.size()) * rank.world_rank());
  sum_numbers(rank, room.list, exchange_place::agreement, std::span(all), room.data);
  return all;
}

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/agreement.ipp"
#endif
