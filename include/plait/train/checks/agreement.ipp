// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/checks/agreement.hpp"

#include <cstdio>
#include <cstdlib>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/train/checks/newcomers.hpp"

namespace plait::execution {

PLAIT_DECL numbers_of_ranks agreement_room::of_all(std::vector<std::uint64_t> const& mine) const {
  std::vector<std::uint64_t> all(agreed_fields * static_cast<std::size_t>(grid.world_size()));
  auto* const here = all.data() + agreed_fields * static_cast<std::size_t>(world_rank);
  for (std::size_t i = 0; i < mine.size(); ++i) here[i] = mine[i];
  if (grid.world_size() > 1) sum_(*this, all);
  return numbers_of_ranks(std::move(all));
}

PLAIT_DECL std::string agreement::first_difference(numbers_of_ranks const& all) const {
  auto const [field, rank] = difference_in(all);
  return rank == 0 ? std::string{} : names_[field];
}

PLAIT_DECL std::string agreement::difference(numbers_of_ranks const& all, int rank,
                                             int reference) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    auto const here = all[static_cast<std::size_t>(rank)][i];
    auto const there = all[static_cast<std::size_t>(reference)][i];
    if (here != there)
      return concat({subject_, ": ", names_[i], " is ", text(i, here), " here and ", text(i, there),
                     " in the job"});
  }
  return "";
}

PLAIT_DECL void agreement::require_equal(agreement_room const& room,
                                         numbers_of_ranks const& all) const {
  refuse_newcomers(room.generation,
                   [&](int other, int reference) { return difference(all, other, reference); });
  auto const [field, rank] = difference_in(all);
  if (rank == 0) return;
  throw input_error({subject_, ": the ranks differ in ", names_[field], ": ",
                     text(field, all[0][field]), " on rank 0, ", text(field, all[rank][field]),
                     " on rank ", rank,
                     "; what trains together must be made with the same numbers on every rank"});
}

PLAIT_DECL agreement::place agreement::difference_in(numbers_of_ranks const& all) const {
  for (std::size_t i = 0; i < names_.size(); ++i)
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (all[0][i] != all[rank][i]) return {i, rank};
  return {};
}

PLAIT_DECL void agreement::add_bits(std::string_view name, std::uint64_t bits, bool is_real) {
  if (names_.size() == agreed_fields)
    throw error({"agreement: ", subject_, " has more than ", agreed_fields, " numbers; '", name,
                 "' is one too many"});
  bits_.push_back(bits);
  names_.push_back(std::string(name));
  is_real_ = is_real_ << 1 | (is_real ? 1u : 0u);
}

PLAIT_DECL std::string agreement::text(std::size_t field, std::uint64_t bits) const {
  if ((is_real_ >> (names_.size() - 1 - field) & 1) == 0) return std::to_string(bits);
  char out[32];
  std::snprintf(out, sizeof out, "%.17g", std::bit_cast<double>(bits));
  char shorter[32];
  std::snprintf(shorter, sizeof shorter, "%.6g", std::bit_cast<double>(bits));
  return std::strtod(shorter, nullptr) == std::bit_cast<double>(bits) ? shorter : out;
}

}  // namespace plait::execution
