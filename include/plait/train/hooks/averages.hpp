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

/// The averages over the steps of what one rank's optimizer owns (exponential moving averages), in
/// an arena of their own, which the plan's memory has.
///
/// Parameters and averages can change places, so that layers and exports see the averages without
/// knowing of them. A change of places is the rank's own. Where layers see more than the rank owns,
/// the rest is out of date from then on, until gather_parameters().
/// Errors:  out_of_memory says what the plan needs the memory for.
/// Threads: used by the one thread that runs the rank.
template <class Elements, class Rank>
class averages : public step_hook {
  using element = typename Elements::parameter_element;
  using store_type = parameter_store<Elements, Rank>;

 public:
  /// Room in `arenas`, which restart() fills; with a decay of 0 there is none.
  [[gnu::cold]] averages(Rank& rank, plan_facts const& plan, store_type& store,
                         training_arenas<Rank>& arenas, double decay)
      : rank_(rank), plan_(plan), store_(store), decay_(decay), memory_(arenas.averages) {
    memory_ = store.allocate(decay == 0 ? 0 : store.owned_count() * sizeof(element));
  }

  /// Bytes of the arena.
  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }

  [[nodiscard]] store_type const& store() const { return store_; }
  [[nodiscard]] auto queue() const { return rank_.device().on(stream::compute); }
  /// Those of a block.
  [[nodiscard]] element* data_of(owned_block const& block) const {
    return reinterpret_cast<element*>(memory_.data()) + block.state_offset;
  }

  /// Makes the averages what the parameters are.
  [[gnu::cold]] void restart();

  /// averages = decay * averages + (1 - decay) * parameters for a block whose step has been put
  /// into the same queue. Nothing is done if `*gradient_scale` is not a number.
  void after_update(owned_block const& block, double const* gradient_scale) const;

  /// What layers keep beside parameters is no average: `count` elements of a block from `at` on are
  /// what the parameters' arena has.
  void copy(owned_block const& block, std::size_t at, std::size_t count) const;

  /// Parameters and averages are in each other's places while it lives, also when an exception ends
  /// that.
  class scope {
   public:
    explicit scope(averages& held) : held_(held) { held_.change_places(); }
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;
    ~scope() noexcept(false) {
      try {
        held_.change_places();
      } catch (...) {  // where one has ended the scope, that is the exception to be seen
        if (std::uncaught_exceptions() == exceptions_) throw;
      }
    }

   private:
    averages& held_;
    int exceptions_ = std::uncaught_exceptions();
  };

  /// Errors: error if there are no averages, or they are in place already.
  [[nodiscard]] [[gnu::cold]] scope in_place();

  /// Errors: error, with the name of the call, if averages are in the parameters' place.
  void require_parameters(char const* call) const;

  /// A step begins, which gathers by itself; where it `updates`, what layers see is that of before.
  void begin_step(bool updates) { is_stale_ = updates && layers_see_more_; }

  /// Brings what layers see up to date on all ranks, if it is not; all ranks call it.
  ///
  /// Moves: what the plan's list has for the gathering of parameters before a step, after one or a
  /// change of places.
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
  // The region over_tensor is kept whole at every level.
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
        "with_ema: this trainer has no averages; give it a decay for them, as in "
        "trainer_options{.average = 0.999}");
  require_parameters("with_ema");
  return scope(*this);
}

template <class Elements, class Rank>
void averages<Elements, Rank>::require_parameters(char const* call) const {
  if (are_in_place_)
    throw error({call,
                 " was called inside with_ema; it works on the parameters, in whose place "
                 "the averages are"});
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
