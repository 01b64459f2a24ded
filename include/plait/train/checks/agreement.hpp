// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/generation.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/plan_facts.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/run/run_rows.hpp"
#include "plait/run/transfer_runner.hpp"

namespace plait::execution {

/// Numbers that ranks have told each other: `agreed_fields` of rank r at [r].
class numbers_of_ranks {
 public:
  /// `all`: one rank behind the other.
  explicit numbers_of_ranks(std::vector<std::uint64_t> all) : all_(std::move(all)) {}

  [[nodiscard]] std::size_t size() const { return all_.size() / agreed_fields; }
  [[nodiscard]] std::uint64_t const* operator[](std::size_t rank) const {
    return all_.data() + rank * agreed_fields;
  }

 private:
  std::vector<std::uint64_t> all_;
};

/// The ranks of a job, as one of them that compares numbers with the others. It is of one type for
/// all plans and devices, so that what compares is compiled once.
///
/// Threads: used by the one thread that runs the rank.
class agreement_room {
 public:
  /// `data`: room on the device for the numbers of all ranks.
  template <class Rank>
  [[gnu::cold]] agreement_room(Rank& rank, plan_facts const& plan, std::uint64_t* data)
      : grid(rank.grid()),
        world_rank(rank.world_rank()),
        generation(rank.generation()),
        rank_(&rank),
        plan_(plan),
        data_(data),
        sum_(sum<Rank>) {}

  /// All ranks call it, each with up to `agreed_fields` numbers of its own.
  ///
  /// Moves: the row of the plan's list for the set-up.
  [[nodiscard]] [[gnu::cold]] numbers_of_ranks of_all(std::vector<std::uint64_t> const& mine) const;

  mesh const& grid;
  int world_rank;
  ext::generation* generation;  ///< of an elastic job; null where ranks do not change

 private:
  template <class Rank>
  [[gnu::cold]] static void sum(agreement_room const& room, std::vector<std::uint64_t>& all);

  void* rank_;
  plan_facts const& plan_;
  std::uint64_t* data_;
  void (*sum_)(agreement_room const&, std::vector<std::uint64_t>&);
};

template <class Rank>
void agreement_room::sum(agreement_room const& room, std::vector<std::uint64_t>& all) {
  auto& rank = *static_cast<Rank*>(room.rank_);
  sum_numbers(rank, transfers_on(room.plan_, rank, {}, job_part::set_up), transfer_place::agreement,
              std::span(all), room.data_);
}

/// What must be the same on all ranks: named numbers.
class agreement {
 public:
  /// `subject` is what the numbers are of, for messages: "trainer 1".
  [[gnu::cold]] explicit agreement(std::string subject) : subject_(std::move(subject)) {}

  template <class Number>
  void add(std::string_view name, Number value) {
    // Zeros are equal whatever their sign.
    if constexpr (std::is_floating_point_v<Number>)
      add_bits(name, value == 0 ? 0 : std::bit_cast<std::uint64_t>(double{value}), true);
    else add_bits(name, static_cast<std::uint64_t>(value), false);
  }

  /// This rank's numbers.
  [[nodiscard]] std::vector<std::uint64_t> const& mine() const { return bits_; }

  /// The name of the first number that differs between the ranks; empty if none does.
  [[nodiscard]] [[gnu::cold]] std::string first_difference(numbers_of_ranks const& all) const;
  /// Sees to it that all ranks have the same numbers; `all` are those of all ranks.
  ///
  /// Errors: input_error that names the first number that differs, with both values, on all ranks,
  ///         but for newcomers: see refuse_newcomers.
  [[gnu::cold]] void require_equal(agreement_room const& room, numbers_of_ranks const& all) const;

 private:
  struct place {
    std::size_t field = 0, rank = 0;
  };
  /// The first field that differs and the first rank that has another number than rank 0, or rank
  /// 0.
  [[nodiscard]] [[gnu::cold]] place difference_in(numbers_of_ranks const& all) const;
  /// How a rank differs from a reference, with both values; "" if it does not.
  [[nodiscard]] [[gnu::cold]] std::string difference(numbers_of_ranks const& all, int rank,
                                                     int reference) const;
  [[gnu::cold]] void add_bits(std::string_view name, std::uint64_t bits, bool is_real);
  [[nodiscard]] [[gnu::cold]] std::string text(std::size_t field, std::uint64_t bits) const;

  std::string subject_;
  std::vector<std::string> names_{};
  std::vector<std::uint64_t> bits_{};
  std::uint64_t is_real_ = 0;
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/agreement.ipp"
#endif
