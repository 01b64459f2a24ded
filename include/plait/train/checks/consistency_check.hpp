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
#include "plait/train/checks/require_same.hpp"

namespace plait::execution {

/// Numbers that the ranks have exchanged. [r] returns the `compared_fields` numbers of rank r.
class numbers_of_ranks {
 public:
  /// `all`: the numbers of rank 0, of rank 1, and so on.
  explicit numbers_of_ranks(std::vector<std::uint64_t> all) : all_(std::move(all)) {}

  [[nodiscard]] std::size_t size() const { return all_.size() / compared_fields; }
  [[nodiscard]] std::uint64_t const* operator[](std::size_t rank) const {
    return all_.data() + rank * compared_fields;
  }

 private:
  std::vector<std::uint64_t> all_;
};

/// Exchanges small lists of numbers between all ranks of a job. Each rank writes its numbers into
/// its own row of a table of zeros, and one all_reduce sends the whole table to all ranks. For
/// example, on 3 ranks with seeds 1, 1 and 2, all ranks get (1, 1, 2), and therefore find the same
/// difference. The class is one type for all plans and devices, so code that compares numbers is
/// compiled once.
///
/// Threads: used by the one thread that runs the rank.
class number_gather {
 public:
  /// `data`: device memory for the numbers of all ranks.
  template <class Rank>
  [[gnu::cold]] number_gather(Rank& rank, plan_facts const& plan, std::uint64_t* data)
      : grid(rank.grid()),
        world_rank(rank.world_rank()),
        generation(rank.generation()),
        rank_(&rank),
        plan_(plan),
        data_(data),
        sum_(sum<Rank>) {}

  /// Returns the numbers of all ranks. All ranks call this function, each with up to
  /// `compared_fields` numbers.
  ///
  /// Moves: one all_reduce, the entry `consistency_check` in the plan's list of transfers.
  [[nodiscard]] [[gnu::cold]] numbers_of_ranks of_all(std::vector<std::uint64_t> const& mine) const;

  mesh const& grid;
  int world_rank;
  ext::generation* generation;  ///< the generation of an elastic job; null in other jobs

 private:
  template <class Rank>
  [[gnu::cold]] static void sum(number_gather const& gather, std::vector<std::uint64_t>& all);

  void* rank_;
  plan_facts const& plan_;
  std::uint64_t* data_;
  void (*sum_)(number_gather const&, std::vector<std::uint64_t>&);
};

template <class Rank>
void number_gather::sum(number_gather const& gather, std::vector<std::uint64_t>& all) {
  auto& rank = *static_cast<Rank*>(gather.rank_);
  sum_numbers(rank, transfers_on(gather.plan_, rank, {}, job_part::set_up),
              transfer_place::consistency, std::span(all), gather.data_);
}

/// Named numbers that must be the same on all ranks. If, for example, the seed differed between
/// ranks, training would continue without an error and produce nonsense. So each rank adds its
/// numbers by name, the ranks exchange the numbers, and require_equal() throws the same error on
/// all ranks: "trainer 1: the ranks differ in seed: 1 on rank 0, 2 on rank 3; ...".
class consistency_check {
 public:
  /// `subject`: the name of the object that the numbers describe, such as "trainer 1". Messages
  /// begin with this name.
  [[gnu::cold]] explicit consistency_check(std::string subject) : subject_(std::move(subject)) {}

  template <class Number>
  void add(std::string_view name, Number value) {
    // 0.0 and -0.0 count as equal, although their bits differ.
    if constexpr (std::is_floating_point_v<Number>)
      add_bits(name, value == 0 ? 0 : std::bit_cast<std::uint64_t>(double{value}), true);
    else add_bits(name, static_cast<std::uint64_t>(value), false);
  }

  /// Returns this rank's numbers.
  [[nodiscard]] std::vector<std::uint64_t> const& mine() const { return bits_; }

  /// Returns the name of the first number that differs between the ranks; "" if all numbers are
  /// equal.
  [[nodiscard]] [[gnu::cold]] std::string first_difference(numbers_of_ranks const& all) const;
  /// Checks that all ranks have the same numbers. `all`: the numbers of all ranks.
  ///
  /// Errors: see require_same.
  [[gnu::cold]] void require_equal(number_gather const& gather, numbers_of_ranks const& all) const;

 private:
  /// Returns the first number that differs between ranks `rank` and `other`.
  [[nodiscard]] [[gnu::cold]] rank_difference difference(numbers_of_ranks const& all, int rank,
                                                         int other) const;
  [[gnu::cold]] void add_bits(std::string_view name, std::uint64_t bits, bool is_real);
  [[nodiscard]] [[gnu::cold]] std::string text(std::size_t field, std::uint64_t bits) const;

  std::string subject_;
  std::vector<std::string> names_{};
  std::vector<std::uint64_t> bits_{};
  std::uint64_t is_real_ = 0;
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/consistency_check.ipp"
#endif
