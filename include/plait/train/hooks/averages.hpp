// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <type_traits>

#include "plait/core/error.hpp"
#include "plait/plan/plan_facts.hpp"
#include "plait/run/run_rows.hpp"
#include "plait/run/transfer_runner.hpp"
#include "plait/train/hooks/step_hook.hpp"
#include "plait/train/state/parameter_store.hpp"

namespace plait::execution {

/// Exponential moving averages of the parameters that one rank's optimizer owns. The averages have
/// their own arena, which is part of the planned memory. With a decay of 0.999, average = 0.999 *
/// average + 0.001 * parameter after each update.
///
/// in_place() swaps the contents of parameters and averages, so layers and exports read the
/// averages at the addresses of the parameters and need no code for averages. A swap does not
/// communicate, so a rank can undo the swap alone after an exception. If ranks own blocks, as under
/// `zero<1>`, each rank also has copies of the blocks of other ranks, and a swap leaves these
/// copies out of date. The next call that uses parameters then gathers the blocks
/// (gather_parameters).
/// Errors:  out_of_memory with the memory that the plan needs.
/// Threads: used by the one thread that runs the rank.
template <class Elements, class Rank>
class averages : public step_hook {
  using element = typename Elements::parameter_element;
  using store_type = parameter_store<Elements, Rank>;

 public:
  /// Allocates the averages in `arenas`; restart() fills them. If the decay is 0, there are no
  /// averages.
  [[gnu::cold]] averages(Rank& rank, plan_facts const& plan, store_type& store,
                         training_arenas<Rank>& arenas, double decay)
      : rank_(rank), plan_(plan), store_(store), decay_(decay), memory_(arenas.averages) {
    memory_ = store.allocate(decay == 0 ? 0 : store.owned_count() * sizeof(element));
  }

  /// Returns the number of bytes of the arena of averages.
  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }

  [[nodiscard]] store_type const& store() const { return store_; }
  [[nodiscard]] auto queue() const { return rank_.device().on(stream::compute); }
  /// Returns the averages of a block.
  [[nodiscard]] element* data_of(owned_block const& block) const {
    return reinterpret_cast<element*>(memory_.data()) + block.state_offset;
  }

  /// Copies the parameters to the averages.
  [[gnu::cold]] void restart();

  /// Enqueues averages = decay * averages + (1 - decay) * parameters for a block, after the block's
  /// update in the same queue. Nothing changes if `*gradient_scale` is NaN, which marks a step
  /// without an update.
  void after_update(owned_block const& block, double const* gradient_scale) const;

  /// Copies `count` elements of a block, from element `at` on, from the parameters to the averages,
  /// because buffers and newly imported values are not averaged.
  void copy(owned_block const& block, std::size_t at, std::size_t count) const;

  /// An object whose constructor swaps parameters and averages and whose destructor swaps them
  /// back, also after an exception.
  class scope {
   public:
    explicit scope(averages& held) : held_(held) { held_.change_places(); }
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;
    ~scope() noexcept(false) {
      try {
        held_.change_places();
      } catch (...) {  // an exception that is already in flight has priority over this one
        if (std::uncaught_exceptions() == exceptions_) throw;
      }
    }

   private:
    averages& held_;
    int exceptions_ = std::uncaught_exceptions();
  };

  /// Puts the averages into the place of the parameters, until the returned object is destroyed.
  ///
  /// Errors: error if the trainer has no averages, or if the averages are already in the place of
  ///         the parameters.
  [[nodiscard]] [[gnu::cold]] scope in_place();

  /// Checks that the averages are not in the place of the parameters.
  ///
  /// Errors: error, with the name `call` of the trainer's function, if they are.
  void require_parameters(char const* call) const;

  /// Called at the beginning of a step, which itself gathers the parameters that layers see.
  /// `updates`: true if the step updates the blocks that ranks own, so that each rank's copies of
  /// other ranks' blocks are out of date after the step.
  void begin_step(bool updates) { is_stale_ = updates && layers_see_more_; }

  /// Gathers the parameters that layers see, if the copies of other ranks' blocks are out of date.
  /// All ranks call this function.
  ///
  /// Moves: the all_gathers by which a step gathers parameters; nothing if there was neither an
  ///        update nor a swap since the last time.
  void gather_parameters() {
    if (!is_stale_) return;
    is_stale_ = false;
    gather();
  }

 private:
  [[gnu::cold]] void change_places();

  [[gnu::cold]] void gather() {
    run_rows(rank_, transfers_on(plan_, rank_, {}, job_part::training),
             transfer_place::gather_parameters, program_buffer::parameters,
             [&](auto const& transfers, auto const& now) {
               transfers.run(now, store_.compute_parameters());
             });
  }

  Rank& rank_;
  plan_facts const& plan_;
  store_type const& store_;
  // True if layers see parameters that this rank does not own. keeps_blocks() is part of the
  // condition, because every level of `zero` keeps region over_tensor whole on each rank, even if
  // the ranks keep only blocks of the other region.
  bool const layers_see_more_ =
      plan_.numbers.rules.owned != plan_.numbers.rules.kept || plan_.numbers.rules.keeps_blocks();
  double decay_;
  typename Rank::device_type::arena& memory_;
  bool are_in_place_ = false;
  bool is_stale_ = false;
};

template <class Elements, class Rank>
void averages<Elements, Rank>::restart() {
  if (decay_ == 0) return;
  for (auto const& block : store_.owned())
    queue().copy_bytes(store_.parameters_of(block), data_of(block),
                       block.elements.count * sizeof(element));
}

template <class Elements, class Rank>
void averages<Elements, Rank>::after_update(owned_block const& block,
                                            double const* gradient_scale) const {
  if (decay_ == 0) return;
  queue().average(static_cast<element const*>(store_.parameters_of(block)), data_of(block),
                  block.elements.count, decay_, gradient_scale);
}

template <class Elements, class Rank>
void averages<Elements, Rank>::copy(owned_block const& block, std::size_t at,
                                    std::size_t count) const {
  if (decay_ == 0) return;
  queue().copy_bytes(store_.parameters_of(block) + at, data_of(block) + at,
                     count * sizeof(element));
}

template <class Elements, class Rank>
auto averages<Elements, Rank>::in_place() -> scope {
  if (decay_ == 0)
    throw error(
        "with_ema: this trainer keeps no averages; set their decay, such as "
        "trainer_options{.average = 0.999}");
  require_parameters("with_ema");
  return scope(*this);
}

template <class Elements, class Rank>
void averages<Elements, Rank>::require_parameters(char const* call) const {
  if (are_in_place_)
    throw error({call,
                 " was called inside with_ema, where the averages are in the place of the "
                 "parameters that it needs; call it outside with_ema"});
}

template <class Elements, class Rank>
void averages<Elements, Rank>::change_places() {
  are_in_place_ = !are_in_place_;
  is_stale_ = layers_see_more_;
  for (auto const& block : store_.owned()) {
    auto* const parameters = store_.parameters_of(block);
    queue().swap(parameters, data_of(block), block.elements.count);
    if constexpr (!std::is_same_v<element, typename Elements::element>)
      queue().convert(static_cast<element const*>(parameters), store_.copies_of(block),
                      block.elements.count);
  }
}

}  // namespace plait::execution
