// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/checks/consistency_check.hpp"

#include <cstdio>
#include <cstdlib>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::execution {

PLAIT_DECL numbers_of_ranks number_gather::of_all(std::vector<std::uint64_t> const& mine) const {
  std::vector<std::uint64_t> all(compared_fields * static_cast<std::size_t>(grid.world_size()));
  auto* const here = all.data() + compared_fields * static_cast<std::size_t>(world_rank);
  for (std::size_t i = 0; i < mine.size(); ++i) here[i] = mine[i];
  if (grid.world_size() > 1) sum_(*this, all);
  return numbers_of_ranks(std::move(all));
}

PLAIT_DECL std::string consistency_check::first_difference(numbers_of_ranks const& all) const {
  for (std::size_t i = 0; i < names_.size(); ++i)
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (all[0][i] != all[rank][i]) return names_[i];
  return "";
}

PLAIT_DECL rank_difference consistency_check::difference(numbers_of_ranks const& all, int rank,
                                                         int other) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    auto const one = all[static_cast<std::size_t>(rank)][i];
    auto const two = all[static_cast<std::size_t>(other)][i];
    if (one != two) return {names_[i], text(i, one), text(i, two)};
  }
  return {};
}

PLAIT_DECL void consistency_check::require_equal(number_gather const& gather,
                                                 numbers_of_ranks const& all) const {
  require_same(
      gather.generation, all.size(), subject_,
      [&](int rank, int other) { return difference(all, rank, other); },
      "; make the trainer, and the batches it trains on, with the same numbers on every rank");
}

PLAIT_DECL void consistency_check::add_bits(std::string_view name, std::uint64_t bits,
                                            bool is_real) {
  if (names_.size() == compared_fields)
    throw error({"consistency_check: ", subject_, " has more than ", compared_fields, " numbers; '",
                 name, "' is one too many"});
  bits_.push_back(bits);
  names_.push_back(std::string(name));
  is_real_ = is_real_ << 1 | (is_real ? 1u : 0u);
}

PLAIT_DECL std::string consistency_check::text(std::size_t field, std::uint64_t bits) const {
  if ((is_real_ >> (names_.size() - 1 - field) & 1) == 0) return std::to_string(bits);
  char out[32];
  std::snprintf(out, sizeof out, "%.17g", std::bit_cast<double>(bits));
  char shorter[32];
  std::snprintf(shorter, sizeof shorter, "%.6g", std::bit_cast<double>(bits));
  return std::strtod(shorter, nullptr) == std::bit_cast<double>(bits) ? shorter : out;
}

}  // namespace plait::execution
