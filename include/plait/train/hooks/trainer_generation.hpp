// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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
#include "plait/plan/model/workload.hpp"
#include "plait/plan/plan_facts.hpp"
#include "plait/train/checks/consistency_check.hpp"
#include "plait/train/hooks/step_hook.hpp"
#include "plait/train/options/stop_on_signals.hpp"
#include "plait/train/state/training_state.hpp"

namespace plait::execution {

/// Connects a trainer to the generation of an elastic job; in other jobs all calls do nothing. A
/// generation is a period in which the ranks of the job do not change. The trainer of the next
/// generation continues from the state that the previous generation has left in the memory of the
/// ranks. For example, 8 ranks have done step 99 when one of them fails. The other 7 and a joining
/// rank make trainers: take_over() finds the state on 7 of them, introduce() tells all ranks that
/// the eighth is new, and meet() sends the state to the eighth. Then all 8 begin step 100. During
/// training, this hook votes for an end if the ranks are about to change, so that all ranks leave
/// after the same step.
///
/// `Elements`: the element_types of an elastic job; void for other jobs.
/// Threads: used by the one thread that runs the rank.
template <class Rank, class Numbers, class Elements>
class trainer_generation : public step_hook {
  static constexpr bool is_of_elastic = !std::is_void_v<Elements>;

 public:
  using held_type = training_state<Rank, Numbers>;

  /// `plan`: the facts of the job's plan; `kind`: the result of kind_of_state for the job.
  [[gnu::cold]] trainer_generation(Rank& rank, plan_facts const& plan, void const* kind)
      : rank_(rank), plan_(plan), kind_(kind), held_(std::make_shared<held_type>()) {}

  [[nodiscard]] held_type& held() const { return *held_; }
  /// Returns true if the trainer's state comes from an earlier generation.
  [[nodiscard]] bool is_held() const { return is_held_; }

  /// Checks that the generation has not ended on this rank.
  ///
  /// Errors: generation_ended if it has ended.
  void before_call() const {
    if (auto* const now = get()) now->require_running();
  }
  /// Ends the job if the generation is the last, or if all ranks that could continue the job have
  /// got a signal.
  void before_step(end_of_job const& end) const {
    auto* const now = get();
    if (now != nullptr && (now->is_last() || signal_ != 0)) end(signal_);
  }
  [[nodiscard]] bool gives_votes() const { return get() != nullptr; }
  [[nodiscard]] double votes() const {
    auto* const now = get();
    return now == nullptr ? 0 : now->stop_votes();
  }
  /// Waits until the device has done all work that precedes the last transfer, and then marks the
  /// reduced gradients of the step as complete.
  void before_last_transfer() const {
    if (get() != nullptr) rank_.device().synchronize();
    held_->is_ready = true;
  }
  /// Checks that this rank is still a member of the job before it updates parameters; see
  /// generation::require_membership.
  void before_update(double const* votes) const {
    if (auto* const now = get()) now->require_membership(*votes != 0);
  }
  void after_step() const {
    if (auto* const now = get()) {
      now->carried().step = held_->step;
      now->carried().is_accepted = true;
    }
  }
  /// Ends the generation after a vote for an end, or ends the job if the job cannot continue. If
  /// all ranks that could continue the job have got a signal, the job ends before the next step.
  void between_steps(counted_votes& votes) {
    if (auto* const now = get(); now != nullptr && votes.sum != 0) end(*now, votes);
  }
  void at_end(int signal, step_report const&) const {
    if (auto* const now = get(); now != nullptr && signal == 0) now->end_job(held_->step - 1);
  }

  /// Takes over the state that the previous generation has left on this rank. Returns false if that
  /// generation has left no complete state for this rank's stage and tensor coordinate.
  ///
  /// Errors: input_error if the state belongs to another job or to another optimizer.
  template <class Store>
  [[gnu::cold]] bool take_over(Store& store, bool has_averages, std::string const& name);

  /// Tells all ranks which ranks an earlier generation has compared and accepted. All other ranks
  /// are new.
  ///
  /// Moves: one all_reduce of the set-up.
  [[gnu::cold]] void introduce(number_gather const& gather);
  /// Brings all ranks to the newest step that a rank has done. A rank that lacks only this step
  /// calls catch_up(numbers) to do the update. If some part of the state is no longer on any rank,
  /// all ranks call start(), and training begins with step 0. Only elastic jobs call this function.
  ///
  /// \see transfer_state
  [[gnu::cold]] void meet(number_gather const& gather, workload const& load,
                          std::string const& name,
                          function_reference<void(Numbers const&)> catch_up,
                          function_reference<void()> start);

 private:
  [[gnu::cold]] void end(generation& now, counted_votes& votes);
  /// Returns the signal if no rank could continue the job, because signals have arrived at all
  /// ranks that have a copy of some part of the state; else 0. To find this out, the ranks exchange
  /// only a few numbers. If the ranks of the next generation cannot be looked up now, all ranks
  /// wait up to `for_signals`, because a signal to a whole job arrives at some processes later than
  /// at others.
  [[nodiscard]] [[gnu::cold]] int signal_to_all(generation& now, number_gather const& gather) const;
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
void trainer_generation<Rank, Numbers, Elements>::end(generation& now, counted_votes& votes) {
  if (votes.sum >= generation::job_cannot_go_on) return votes.end(0);
  votes.sum = 0;
  signal_ = signal_to_all(now, votes.gather);
  if (signal_ == 0) now.end(concat({"the ranks change after step ", held_->step - 1}));
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
                           ": the trainer of the previous generation had another job type or "
                           "another optimizer; make the same trainer in every generation"});
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
void trainer_generation<Rank, Numbers, Elements>::introduce(number_gather const& gather) {
  if constexpr (is_of_elastic)
    if (auto* const now = get(); now != nullptr) {
      std::vector<std::uint64_t> const mine(1, now->carried().is_accepted ? 1 : 0);
      auto const all = gather.of_all(mine);
      std::vector<char> accepted;
      for (std::size_t of = 0; of < all.size(); ++of) accepted.push_back(all[of][0] != 0);
      now->know_accepted(std::move(accepted));
    }
}

template <class Rank, class Numbers, class Elements>
void trainer_generation<Rank, Numbers, Elements>::meet(
    number_gather const& gather, workload const& load, std::string const& name,
    function_reference<void(Numbers const&)> catch_up, function_reference<void()> start) {
  if (auto* const now = get(); now != nullptr) {
    auto const what = transfer_state<Elements>(rank_, gather, *held_, plan_, load, catch_up);
    is_held_ = what == transferred_state::state;
    if (what == transferred_state::lost) {
      if (rank_.is_root())
        std::fprintf(
            stderr,
            "plait: %s: the remaining processes do not have all of the state; the job continues "
            "from its newest checkpoint or, without a checkpoint, begins again\n",
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
                                                               number_gather const& gather) const {
  enum field : std::size_t { caught, alone, late };
  auto const begin = std::chrono::steady_clock::now();
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds{20})) {
    std::vector<std::uint64_t> mine(compared_fields);
    mine[caught] = static_cast<std::uint64_t>(detail::caught_signal::number().load());
    mine[alone] = now.is_alone() ? 1 : 0;
    mine[late] = std::chrono::steady_clock::now() - begin >= for_signals ? 1 : 0;
    auto const all = gather.of_all(mine);
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
