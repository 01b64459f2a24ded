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

/// Numbers that the ranks have exchanged. [r] returns the `agreed_fields` numbers of rank r.
class numbers_of_ranks {
 public:
  /// `all`: the numbers of rank 0, of rank 1, and so on.
  explicit numbers_of_ranks(std::vector<std::uint64_t> all) : all_(std::move(all)) {}

  [[nodiscard]] std::size_t size() const { return all_.size() / agreed_fields; }
  [[nodiscard]] std::uint64_t const* operator[](std::size_t rank) const {
    return all_.data() + rank * agreed_fields;
  }

 private:
  std::vector<std::uint64_t> all_;
};

/// Exchanges small lists of numbers between all ranks of a job. Each rank writes its numbers into
/// its own row of a table of zeros, and one all_reduce gives the whole table to all ranks. For
/// example, on 3 ranks with seeds 1, 1 and 2 all ranks get (1, 1, 2), and so find the same
/// difference. The class is one type for all plans and devices, so code that compares numbers is
/// compiled once.
///
/// Threads: used by the one thread that runs the rank.
class agreement_room {
 public:
  /// `data`: device memory for the numbers of all ranks.
  template <class Rank>
  [[gnu::cold]] agreement_room(Rank& rank, plan_facts const& plan, std::uint64_t* data)
      : grid(rank.grid()),
        world_rank(rank.world_rank()),
        generation(rank.generation()),
        rank_(&rank),
        plan_(plan),
        data_(data),
        sum_(sum<Rank>) {}

  /// Returns the numbers of all ranks. All ranks call this function, each with up to
  /// `agreed_fields` numbers.
  ///
  /// Moves: one all_reduce, the row (entry) `agreement` of the plan's list of transfers.
  [[nodiscard]] [[gnu::cold]] numbers_of_ranks of_all(std::vector<std::uint64_t> const& mine) const;

  mesh const& grid;
  int world_rank;
  ext::generation* generation;  ///< the generation of an elastic job; null in other jobs

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

/// Named numbers that must be the same on all ranks. If a seed differs between ranks, training
/// would continue without an error and produce nonsense. So each rank adds its numbers by name, the
/// ranks exchange them, and require_equal() throws the same error on all ranks: "trainer 1: the
/// ranks differ in seed: 1 on rank 0, 2 on rank 3; ...".
class agreement {
 public:
  /// `subject`: the name of the object that the numbers describe, with which messages begin, as in
  /// "trainer 1".
  [[gnu::cold]] explicit agreement(std::string subject) : subject_(std::move(subject)) {}

  template <class Number>
  void add(std::string_view name, Number value) {
    // 0.0 and -0.0 count as equal, although their bits differ.
    if constexpr (std::is_floating_point_v<Number>)
      add_bits(name, value == 0 ? 0 : std::bit_cast<std::uint64_t>(double{value}), true);
    else add_bits(name, static_cast<std::uint64_t>(value), false);
  }

  /// Returns this rank's numbers.
  [[nodiscard]] std::vector<std::uint64_t> const& mine() const { return bits_; }

  /// Returns the name of the first number that differs between the ranks; "" if none does.
  [[nodiscard]] [[gnu::cold]] std::string first_difference(numbers_of_ranks const& all) const;
  /// Requires that all ranks have the same numbers. `all`: the numbers of all ranks.
  ///
  /// Errors: input_error that names the first number that differs, with both values, on all ranks.
  ///         If only newcomers to an elastic job differ, refuse_newcomers throws instead.
  [[gnu::cold]] void require_equal(agreement_room const& room, numbers_of_ranks const& all) const;

 private:
  struct place {
    std::size_t field = 0, rank = 0;
  };
  /// Returns the first number that differs between ranks, and the first rank that differs from rank
  /// 0 in it. The returned rank is 0 if no number differs.
  [[nodiscard]] [[gnu::cold]] place difference_in(numbers_of_ranks const& all) const;
  /// Returns a sentence that describes the first difference between the numbers of `rank` and of
  /// rank `reference`, with both values; "" if there is none.
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
