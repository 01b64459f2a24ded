// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/generation.hpp"
#include "plait/core/caught_signal.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/plan/plan_facts.hpp"
#include "plait/plan/schedule/exchanges.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/run_rows.hpp"
#include "plait/train/checks/agreement.hpp"
#include "plait/train/options/stop_on_signals.hpp"
#include "plait/train/state/averages.hpp"
#include "plait/train/state/parameter_store.hpp"
#include "plait/train/state/saved_state.hpp"
#include "plait/train/state/state_ages.hpp"

namespace plait::execution {

/// What a trainer trains and how far it is. In an elastic job the trainer of the next generation
/// takes it over.
///
/// All that a step changes it changes behind its last exchange, which is one over all ranks: who
/// has come through it knows that everybody has the reduced gradients. So ranks of one generation
/// are at most one step apart, and one that is behind needs nothing but the numbers of the step.
///
/// `Numbers`: those of a step, step_scalars.
template <class Rank, class Numbers>
struct held_state {
  training_arenas<Rank> arenas{};
  lean_vector<parameter_block> local{};  ///< where parameters lie in them
  std::size_t owned_count = 0;
  int stage = 0, tensor_rank = 0;
  std::int64_t step = 0;  ///< the number of the next
  state_ages ages{};
  run_origin origin{};
  bool is_whole = true;   ///< false while another rank's state is on its way into the arenas
  bool is_ready = false;  ///< the reduced gradients of the next step are there
  Numbers last{};         ///< of the step before

  [[gnu::cold]] ~held_state() = default;  // said so that it is cold: a rank ends once

  /// Advances past a step that is done, with the numbers of that step. States whose update was left
  /// out, since the factor of their gradients is nan, do not get older.
  void advance(Numbers const& numbers) {
    last = numbers;
    is_ready = false;
    ++step;
    if (!std::isnan(numbers.gradient_scale)) ages.advance();
  }
};

/// Stands for a job and what its optimizer keeps: another address for each other `Job` or
/// `Numbers`.
template <class Job, class Numbers>
[[nodiscard]] void const* kind_of_state() {
  static char const one = 0;
  return &one;
}

/// The state of a job at the begin of a generation, the same on all ranks.
enum class transferred_state : int {
  nothing,  ///< no step has been done
  state,    ///< every rank is at the same step
  lost      ///< steps have been done, but nobody has all of the state any more
};

/// Brings the ages of rank `from` to all ranks. `oldest` and `count`: the oldest age on that rank,
/// and the number of parameters for which it has a number.
///
/// Moves: rows of the list for the set-up, where ages differ.
[[gnu::cold]] inline state_ages ages_of_rank(agreement_room const& room, state_ages const& mine,
                                             int from, std::uint64_t oldest, std::uint64_t count) {
  lean_vector<std::int64_t> all(static_cast<std::size_t>(count));
  for (std::size_t begin = 0; begin < all.size(); begin += agreed_fields) {
    std::size_t const part = std::min<std::size_t>(agreed_fields, all.size() - begin);
    std::vector<std::uint64_t> told(agreed_fields);
    for (std::size_t i = 0; i < part && room.world_rank == from; ++i)
      told[i] = static_cast<std::uint64_t>(mine.differences()[begin + i]);
    auto const heard = room.of_all(told);
    for (std::size_t i = 0; i < part; ++i)
      all[begin + i] = static_cast<std::int64_t>(heard[static_cast<std::size_t>(from)][i]);
  }
  state_ages out;
  out.set(static_cast<std::int64_t>(oldest), std::move(all));
  return out;
}

/// Brings all ranks of a new generation to the newest step that one of them has done.
///
/// `Elements`: element_types of the job; `plan`: the facts of its plan; `load`: parts of the state
/// other than parameters and optimizer. catch_up(numbers) updates a rank that lacks the last step
/// of the others and has its gradients.
///
/// Moves: rows of the list for the set-up; the state of the first rank along the data axis that has
///        the newest one, to ranks without it, by the rows of `job_part::state_transfer`.
/// Errors: those of the communicator; a rank whose state was on its way has none then.
template <class Elements, class Rank, class Numbers>
[[gnu::cold]] transferred_state transfer_state(Rank& rank, agreement_room const& room,
                                               held_state<Rank, Numbers>& held,
                                               plan_facts const& plan, workload const& load,
                                               function_reference<void(Numbers const&)> catch_up) {
  static_assert(sizeof(Numbers) <= agreed_fields * sizeof(std::uint64_t) &&
                std::is_trivially_copyable_v<Numbers>);
  enum field : std::size_t { done, ready, origin_step, origin_batch, oldest, ages };
  std::vector<std::uint64_t> mine(agreed_fields);
  mine[done] = held.is_whole ? static_cast<std::uint64_t>(held.step) + 1 : 0;
  mine[ready] = held.is_ready ? 1 : 0;
  mine[origin_step] = static_cast<std::uint64_t>(held.origin.step);
  mine[origin_batch] = held.origin.batch;
  mine[oldest] = static_cast<std::uint64_t>(held.ages.oldest());
  mine[ages] = held.ages.differences().size();
  auto const all = room.of_all(mine);
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

  std::memset(mine.data(), 0, agreed_fields * sizeof mine[0]);
  std::memcpy(mine.data(), &held.last, sizeof held.last);
  auto const numbers = room.of_all(mine);
  Numbers last;
  std::memcpy(static_cast<void*>(&last), numbers[static_cast<std::size_t>(newest)], sizeof last);
  auto const step = static_cast<std::int64_t>(now - 1);
  if (lags(rank.world_rank())) {
    catch_up(last);
    held.step = step;
  }
  held.last = last;
  held.ages = ages_of_rank(room, held.ages, newest, of(newest, oldest), of(newest, ages));
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
  auto const list = exchanges_on(plan, rank, from_source, job_part::state_transfer);
  std::size_t place = 0;
  run_rows(rank, list, exchange_place::state, program_buffer::state,
           [&](auto const& exchanges, auto const& row) {
             while (places[place] == nullptr) ++place;
             std::byte* const to = places[place++];
             if (list[std::size_t(row.row)].element == exchange_element::compute)
               exchanges.run(row, reinterpret_cast<typename Elements::element*>(to));
             else exchanges.run(row, reinterpret_cast<typename Elements::parameter_element*>(to));
           });
  // The state is whole when it is there, not before.
  rank.device().synchronize();
  held.step = step;
  held.is_whole = true;
  return transferred_state::state;
}

/// A trainer in its generation, if it has one: of a job that is not elastic all calls do nothing.
///
/// `Elements`: element_types of an elastic job, void of another one.
/// Threads: used by the one thread that runs the rank.
template <class Rank, class Numbers, class Elements>
class trainer_generation {
  static constexpr bool is_of_elastic = !std::is_void_v<Elements>;

 public:
  using held_type = held_state<Rank, Numbers>;

  /// `plan`: the facts of the job's plan; `kind`: its kind_of_state.
  [[gnu::cold]] trainer_generation(Rank& rank, plan_facts const& plan, void const* kind)
      : rank_(rank), plan_(plan), kind_(kind), held_(std::make_shared<held_type>()) {}

  [[nodiscard]] held_type& held() const { return *held_; }
  /// Whether the state is that of a generation before, which has been trained.
  [[nodiscard]] bool is_held() const { return is_held_; }

  /// Errors: generation_ended if it has ended on this rank.
  void require_running() const {
    if (auto* const now = get()) now->require_running();
  }
  [[nodiscard]] bool is_elastic() const { return get() != nullptr; }
  /// What the rank adds to the number by which all agree to stop, beside signals.
  [[nodiscard]] double stop_votes() const {
    auto* const now = get();
    return now == nullptr ? 0 : now->stop_votes();
  }
  /// `stop`: the sum of what all ranks have asked for.
  ///
  /// \see generation::require_membership
  void require_membership(double const* stop) const {
    if (auto* const now = get()) now->require_membership(*stop != 0);
  }
  /// Whether the job is to end before another step.
  [[nodiscard]] bool is_last() const {
    auto* const now = get();
    return now != nullptr && (now->is_last() || signal_ != 0);
  }
  /// The signal by which it ends then, 0 if the generation says it.
  [[nodiscard]] int signal() const { return signal_; }
  /// The step that is done is the trainer's from now on.
  void commit(Numbers const& last) const;
  /// Ends a generation, if there is one, after the step before this one, where `stop` is the sum of
  /// what all ranks have asked for. Returns whether the job is to end at once; where signals leave
  /// nobody who could go on, it ends before the next step.
  [[gnu::cold]] bool end(double stop, agreement_room const& room);
  /// Ends the job, if it is elastic.
  [[gnu::cold]] void end_job() const {
    if (auto* const now = get()) now->end_job(held_->step - 1);
  }

  /// Takes over what the last generation has left on this rank; false if that is nothing.
  ///
  /// Errors: input_error if it has left something else than this trainer trains.
  template <class Store>
  [[gnu::cold]] bool take_over(Store& store, bool has_averages, std::string const& name);

  /// All ranks learn which of them have been compared before.
  ///
  /// Moves: a row of the list for the set-up.
  [[gnu::cold]] void introduce(agreement_room const& room);
  /// All ranks go on from the newest step that one of them has done; start() begins anew.
  ///
  /// \see transfer_state
  [[gnu::cold]] void meet(agreement_room const& room, workload const& load, std::string const& name,
                          function_reference<void(Numbers const&)> catch_up,
                          function_reference<void()> start);

 private:
  /// The signal that leaves nobody who has some part of the state, else 0. Nothing but connections
  /// of the ranks is needed to find that; where the next ones cannot be agreed on, others than the
  /// first have a moment to get theirs.
  [[nodiscard]] [[gnu::cold]] int signal_to_all(generation& now, agreement_room const& room) const;
  [[nodiscard]] generation* get() const {
    if constexpr (is_of_elastic) return rank_.generation();
    else return nullptr;
  }

  static constexpr std::chrono::seconds for_signals{2};

  Rank& rank_;
  plan_facts const& plan_;
  void const* kind_;
  std::shared_ptr<held_type> held_;
  bool is_held_ = false;
  int signal_ = 0;
};

template <class Rank, class Numbers, class Elements>
void trainer_generation<Rank, Numbers, Elements>::commit(Numbers const& last) const {
  held_->advance(last);
  if (auto* const now = get()) {
    now->carried().step = held_->step;
    now->carried().is_accepted = true;
  }
}

template <class Rank, class Numbers, class Elements>
bool trainer_generation<Rank, Numbers, Elements>::end(double stop, agreement_room const& room) {
  auto* const now = get();
  if (now == nullptr || stop >= generation::job_cannot_go_on) return true;
  signal_ = signal_to_all(*now, room);
  if (signal_ != 0) return false;
  now->end(concat({"the ranks change after step ", held_->step - 1}));
}

template <class Rank, class Numbers, class Elements>
template <class Store>
bool trainer_generation<Rank, Numbers, Elements>::take_over(Store& store, bool has_averages,
                                                            std::string const& name) {
  held_->local = store.local();
  held_->owned_count = store.owned_count();
  held_->stage = rank_.stage();
  held_->tensor_rank = rank_.tensor_rank();
  if constexpr (is_of_elastic)
    if (auto* const now = get(); now != nullptr) {
      now->enter();
      auto& kept = now->carried();
      if (kept.object != nullptr && kept.kind != kind_)
        throw input_error({name,
                           ": the trainer of the last generation was of another job or had "
                           "another optimizer; a program makes the same one each time"});
      auto const old = std::static_pointer_cast<held_type>(kept.object);
      bool const fits = old != nullptr && old->is_whole && old->step > 0 &&
                        old->stage == held_->stage && old->tensor_rank == held_->tensor_rank;
      if (fits) {
        store.take(old->arenas, old->local, old->owned_count);
        if (has_averages) store.take_averages(old->arenas, old->local);
        rank_.device().synchronize();
        held_->step = old->step;
        held_->ages = old->ages;
        held_->origin = old->origin;
        held_->is_ready = old->is_ready;
        held_->last = old->last;
      }
      kept = {held_, kind_, held_->step, now->block(), kept.is_accepted};
      return fits;
    }
  return false;
}

template <class Rank, class Numbers, class Elements>
void trainer_generation<Rank, Numbers, Elements>::introduce(agreement_room const& room) {
  if constexpr (is_of_elastic)
    if (auto* const now = get(); now != nullptr) {
      std::uint64_t const mine = now->carried().is_accepted ? 1 : 0;
      auto const all = room.of_all({&mine, 1});
      std::vector<char> accepted;
      for (std::size_t of = 0; of < all.size(); ++of) accepted.push_back(all[of][0] != 0);
      now->know_accepted(std::move(accepted));
    }
}

template <class Rank, class Numbers, class Elements>
void trainer_generation<Rank, Numbers, Elements>::meet(
    agreement_room const& room, workload const& load, std::string const& name,
    function_reference<void(Numbers const&)> catch_up, function_reference<void()> start) {
  if constexpr (is_of_elastic)
    if (auto* const now = get(); now != nullptr) {
      auto const what = transfer_state<Elements>(rank_, room, *held_, plan_, load, catch_up);
      is_held_ = what == transferred_state::state;
      if (what == transferred_state::lost) {
        if (rank_.is_root())
          std::fprintf(stderr,
                       "plait: %s: the processes that are left do not have all of the state; the "
                       "job goes on from its newest checkpoint, or begins anew\n",
                       name.c_str());
        start();
        held_->step = 0;
        held_->ages = {};
        held_->last = {};
        held_->origin = {};
        held_->is_whole = true;
        held_->is_ready = false;
      }
      now->carried().step = held_->step;
    }
}

template <class Rank, class Numbers, class Elements>
int trainer_generation<Rank, Numbers, Elements>::signal_to_all(generation& now,
                                                               agreement_room const& room) const {
  enum field : std::size_t { caught, alone, late };
  auto const begin = std::chrono::steady_clock::now();
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds{20})) {
    std::vector<std::uint64_t> mine(agreed_fields);
    mine[caught] = static_cast<std::uint64_t>(detail::caught_signal::number().load());
    mine[alone] = now.is_alone() ? 1 : 0;
    mine[late] = std::chrono::steady_clock::now() - begin >= for_signals ? 1 : 0;
    auto const all = room.of_all(mine);
    auto const of = [&](int other, field what) {
      return all[static_cast<std::size_t>(other)][what];
    };
    double signals = 0;
    bool waits = false, is_late = false, leaves_none = false;
    for (int other = 0; other < rank_.world_size(); ++other) {
      signals += stop_summand(static_cast<int>(of(other, caught)));
      waits = waits || of(other, alone) != 0;
      is_late = is_late || of(other, late) != 0;
      auto const copies = rank_.grid().group_of(other, batch_axes);
      leaves_none = leaves_none || std::all_of(copies.begin(), copies.end(),
                                               [&](int one) { return of(one, caught) != 0; });
    }
    if (leaves_none) return agreed_signal(signals);
    if (signals == 0 || !waits || is_late) return 0;
  }
}

}  // namespace plait::execution
