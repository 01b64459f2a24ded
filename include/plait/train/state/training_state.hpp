// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "plait/backend/generation.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/plan/plan_facts.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/run/run_rows.hpp"
#include "plait/run/transfer_runner.hpp"
#include "plait/train/checks/consistency_check.hpp"
#include "plait/train/state/parameter_store.hpp"
#include "plait/train/state/saved_state.hpp"
#include "plait/train/state/state_ages.hpp"

namespace plait::execution {

/// The state that a trainer trains, and the number of its next step. In an elastic job the trainer
/// of the next generation takes this state over.
///
/// If a rank fails in the middle of a step, the states of the other ranks must still fit together.
/// A step therefore changes the state only after its last transfer, in which all ranks take part: a
/// rank that completes this transfer knows that all ranks have the reduced gradients. So the ranks
/// of one generation are at most one step apart. If rank 2 has done step 99 and rank 5 has not,
/// rank 5 has the gradients of step 99: it needs only the numbers of that step, such as the factor
/// of clipping, to compute the update itself.
///
/// `Numbers`: step_scalars, the numbers of a step.
template <class Rank, class Numbers>
struct training_state {
  training_arenas<Rank> arenas{};
  lean_vector<parameter_block> local{};  ///< the blocks of parameters in the arenas
  std::size_t owned_count = 0;
  int stage = 0, tensor_rank = 0;
  std::int64_t step = 0;  ///< the number of the next step
  state_ages ages{};
  run_origin origin{};
  bool is_whole = true;   ///< false while the arenas receive the state of another rank
  bool is_ready = false;  ///< true if the reduced gradients of the next step are complete
  Numbers last{};         ///< loss, norm and other results of the last step

  [[gnu::cold]] ~training_state() = default;  // cold, because each rank runs it only once

  /// Advances past a completed step, with the numbers of that step. If the update of the step was
  /// left out, because the factor of the gradients is NaN, the ages of the optimizer's states do
  /// not increase. `updates`: false if the program of the step has no update.
  void advance(Numbers const& numbers, bool updates = true) {
    last = numbers;
    is_ready = false;
    ++step;
    if (updates && !std::isnan(numbers.gradient_scale)) ages.advance();
  }
};

/// Returns an address that identifies the type of a job and of its optimizer's numbers. It differs
/// for each combination of `Job` and `Numbers`.
template <class Job, class Numbers>
[[nodiscard]] void const* kind_of_state() {
  static char const one = 0;
  return &one;
}

/// The state of a job at the beginning of a generation. All ranks have the same value.
enum class transferred_state : int {
  nothing,  ///< no step has been done
  state,    ///< all ranks have the state of the same step
  lost      ///< steps have been done, but some part of the state is no longer on any rank
};

/// Sends the ages of rank `from` to all ranks. `oldest`: the oldest age on rank `from`; `count`:
/// the number of parameters for which rank `from` has a difference of ages.
///
/// Moves: all_reduces of the set-up, if the ages of parameters differ.
[[gnu::cold]] inline state_ages ages_of_rank(number_gather const& gather, state_ages const& mine,
                                             int from, std::uint64_t oldest, std::uint64_t count) {
  lean_vector<std::int64_t> all(static_cast<std::size_t>(count));
  for (std::size_t begin = 0; begin < all.size(); begin += compared_fields) {
    std::size_t const part = std::min<std::size_t>(compared_fields, all.size() - begin);
    std::vector<std::uint64_t> told(compared_fields);
    for (std::size_t i = 0; i < part && gather.world_rank == from; ++i)
      told[i] = static_cast<std::uint64_t>(mine.differences()[begin + i]);
    auto const heard = gather.of_all(told);
    for (std::size_t i = 0; i < part; ++i)
      all[begin + i] = static_cast<std::int64_t>(heard[static_cast<std::size_t>(from)][i]);
  }
  state_ages out;
  out.set(static_cast<std::int64_t>(oldest), std::move(all));
  return out;
}

/// Brings all ranks of a new generation to the newest step that a rank has done. A rank that has
/// done this step keeps its state. A rank that lacks only this step, and has the reduced gradients
/// of the step, computes the update itself. All other ranks, such as joining ranks, receive the
/// state from a rank that has it. If some part of the state is on no rank and cannot be computed by
/// any rank, the state is lost.
///
/// `Elements`: element_types of the job; `plan`: the facts of its plan; `load`: the parts of the
/// state that are neither parameters nor states of the optimizer, such as averages.
/// catch_up(numbers) computes the update on a rank that has the gradients of the newest step but
/// has not done the step.
///
/// Moves: all_reduces of the set-up; the state, from the first rank along the data axis that has
///        the newest state to the ranks without this state, by the transfers that the plan lists
///        for `job_part::state_transfer`.
/// Errors: the errors of the communicator; a rank that was receiving the state then has no state.
template <class Elements, class Rank, class Numbers>
[[gnu::cold]] transferred_state transfer_state(Rank& rank, number_gather const& gather,
                                               training_state<Rank, Numbers>& held,
                                               plan_facts const& plan, workload const& load,
                                               function_reference<void(Numbers const&)> catch_up) {
  static_assert(sizeof(Numbers) <= compared_fields * sizeof(std::uint64_t) &&
                std::is_trivially_copyable_v<Numbers>);
  enum field : std::size_t { done, ready, origin_step, origin_batch, oldest, ages };
  std::vector<std::uint64_t> mine(compared_fields);
  mine[done] = held.is_whole ? static_cast<std::uint64_t>(held.step) + 1 : 0;
  mine[ready] = held.is_ready ? 1 : 0;
  mine[origin_step] = static_cast<std::uint64_t>(held.origin.step);
  mine[origin_batch] = held.origin.batch;
  mine[oldest] = static_cast<std::uint64_t>(held.ages.oldest());
  mine[ages] = held.ages.differences().size();
  auto const all = gather.of_all(mine);
  auto const of = [&](int other, field what) { return all[static_cast<std::size_t>(other)][what]; };
  int newest = 0;  // the first rank with the newest state
  for (int other = 1; other < rank.world_size(); ++other)
    if (of(other, done) > of(newest, done)) newest = other;
  auto const now = of(newest, done);
  if (now <= 1) return transferred_state::nothing;

  auto const lags = [&](int other) { return of(other, done) + 1 == now && of(other, ready) == 1; };
  auto const has = [&](int other) { return of(other, done) == now || lags(other); };
  for (int other = 0; other < rank.world_size(); ++other) {
    auto const copies = rank.grid().group_of(other, batch_axes);
    if (std::none_of(copies.begin(), copies.end(), has)) return transferred_state::lost;
  }

  std::memset(mine.data(), 0, compared_fields * sizeof mine[0]);
  std::memcpy(mine.data(), &held.last, sizeof held.last);
  auto const numbers = gather.of_all(mine);
  Numbers last;
  std::memcpy(static_cast<void*>(&last), numbers[static_cast<std::size_t>(newest)], sizeof last);
  auto const step = static_cast<std::int64_t>(now - 1);
  if (lags(rank.world_rank())) {
    catch_up(last);
    held.step = step;
  }
  held.last = last;
  held.ages = ages_of_rank(gather, held.ages, newest, of(newest, oldest), of(newest, ages));
  held.origin = {static_cast<std::int64_t>(of(newest, origin_step)), of(newest, origin_batch)};
  held.is_ready = false;

  auto const group = rank.grid().group_of(rank.world_rank(), batch_axes);
  if (std::all_of(group.begin(), group.end(), has)) return transferred_state::state;
  workload from_source = load;
  from_source.source =
      static_cast<int>(std::find_if(group.begin(), group.end(), has) - group.begin());
  if (!has(rank.world_rank())) {
    held.is_whole = false;
    rank.generation()->carried().step = 0;
  }
  auto& arenas = held.arenas;
  std::array<std::byte*, 4> const places{arenas.copies.data(), arenas.parameters.data(),
                                         arenas.state.data(), arenas.averages.data()};
  auto const list = transfers_on(plan, rank, from_source, job_part::state_transfer);
  std::size_t place = 0;
  run_rows(rank, list, transfer_place::state, program_buffer::state,
           [&](auto const& transfers, auto const& row) {
             while (places[place] == nullptr) ++place;
             std::byte* const to = places[place++];
             if (list[std::size_t(row.row)].element == transfer_element::compute)
               transfers.run(row, reinterpret_cast<typename Elements::element*>(to));
             else transfers.run(row, reinterpret_cast<typename Elements::parameter_element*>(to));
           });
  // The rank waits here, because the state may be marked as whole only after all of it has arrived.
  rank.device().synchronize();
  held.step = step;
  held.is_whole = true;
  return transferred_state::state;
}

}  // namespace plait::execution
