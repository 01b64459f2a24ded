// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/stable_sort.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"

namespace plait::execution {

/// The ages of an optimizer's states: for each parameter, the number of updates that its states
/// have had.
///
/// A state that is reset in step 1000 has the age 0 after the reset. The optimizer needs the age,
/// because the bias correction of Adam is a function of the age, not of the step. All ages increase
/// by one with each update. As long as all states have the same age, one number is therefore
/// enough. Otherwise the class also keeps a number for each parameter of the model: the difference
/// between the oldest age and the age of the parameter's states. All ranks have the same numbers.
class state_ages {
 public:
  /// Returns the number of updates that the oldest states have had.
  [[nodiscard]] std::int64_t oldest() const { return oldest_; }
  [[nodiscard]] bool are_equal() const { return younger_by_.empty(); }
  /// Returns the difference between the oldest age and the age of a parameter's states; `number`:
  /// the index of the parameter among all parameters of the model.
  [[nodiscard]] std::int64_t younger_by(int number) const {
    return are_equal() ? 0 : younger_by_[std::size_t(number)];
  }
  [[nodiscard]] std::int64_t of(int number) const { return oldest_ - younger_by(number); }

  /// Makes all states one update older.
  void advance() { ++oldest_; }
  /// Sets the ages of the states of all parameters. `ages[n]`: the age for parameter number n;
  /// `no_state` for a parameter that is not trained.
  [[gnu::cold]] void set(lean_vector<std::int64_t> ages);
  static constexpr std::int64_t no_state = -1;

  /// Returns younger_by() of each parameter; empty if all ages are equal.
  [[nodiscard]] lean_vector<std::int64_t> const& differences() const { return younger_by_; }
  [[gnu::cold]] void set(std::int64_t oldest, lean_vector<std::int64_t> differences);

 private:
  std::int64_t oldest_ = 0;
  lean_vector<std::int64_t> younger_by_{};
};

/// A block of parameters that an optimizer updates in one call, because all of their states have
/// the same age.
struct aged_block {
  owned_block block{};
  std::int64_t younger_by = 0;
  std::size_t age = 0;  ///< index of the age in the rank's list of different ages; 0: the oldest
  std::size_t rows = 0, columns = 0;  ///< shape of a matrix that is updated as a whole, else 0
};

/// Cuts a block that an optimizer owns into pieces, at each element where the age of the states
/// changes. Padding, and elements that are not trained, belong to the same piece as the elements in
/// front of them.
[[nodiscard]] [[gnu::cold]] lean_vector<aged_block> blocks_of_one_age(
    static_view<parameter_entry> entries, lean_vector<parameter_block> const& parameters,
    owned_block const& block, state_ages const& ages);

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/state/state_ages.ipp"
#endif
