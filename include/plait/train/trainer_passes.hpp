// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "plait/plan/memory_text.hpp"
#include "plait/plan/workload.hpp"
#include "plait/run/slice_sums.hpp"
#include "plait/run/timetable_runner.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/batch_checks.hpp"
#include "plait/train/loss_terms.hpp"
#include "plait/train/parameter_store.hpp"

namespace plait::execution {

/// The passes of a trainer, those that train and those that only look, in one arena that they use
/// one after the other. They are made for the greatest batch so far.
///
/// Errors:  out_of_memory says what the plan needs the memory for.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank>
class trainer_passes {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using target_shape = loss_terms<plan, T>;

 public:
  using passes_type = timetable_runner<Job, Rank>;
  using purpose = typename passes_type::purpose;

  [[gnu::cold]] trainer_passes(Rank& rank, parameter_store<Job, Rank>& store,
                               slice_sums<Job, Rank> const& slices)
      : rank_(rank), store_(store), slices_(slices) {}

  /// Bytes of the arena.
  [[nodiscard]] std::size_t bytes() const { return activations_.size(); }
  /// What the device has recorded of a step on batches of one source, emptied if it is of others.
  typename Rank::device_type::graph& recorded(std::uint64_t source) {
    if (source != recorded_source_) recorded_ = {};
    recorded_source_ = source;
    return recorded_;
  }

  /// Those for a batch; name() is what messages call the trainer.
  template <class Batch, class Name>
  passes_type& get(purpose what, Batch const& batch, workload const& load, Name const& name) {
    auto& passes = what == purpose::training ? training_ : evaluation_;
    if (!passes || !passes->fits(load)) make(passes, batch, load, what, name());
    if (last_run_ != what) {
      passes->take_over(rank_);
      last_run_ = what;
    }
    return *passes;
  }

 private:
  template <class Batch>
  [[gnu::cold]] void make(std::optional<passes_type>& passes, Batch const& batch,
                          workload const& load, purpose what, std::string const& name) {
    plait::execution::check_shape(batch, plan::sequence_length, plan::tree.leaves[0].input(),
                                  target_shape::targets, sizeof(T), name);
    last_run_.reset();
    recorded_ = {};
    passes.reset();
    detail::allocate_for_plan(rank_, plan::memory(rank_.stage(), load), [&]() -> auto& {
      std::size_t const bytes = plan::arena_for(rank_.stage(), load).total_bytes;
      if (activations_.size() < bytes) {  // what was there before has ended
        training_.reset();
        evaluation_.reset();
        activations_ = {};
        activations_ = rank_.device().allocate(bytes);
      }
      return passes.emplace(rank_, load, what,
                            typename stage_runner<Job, Rank>::arenas{
                                activations_.data(), store_.seen(), store_.gradients()});
    });
    if constexpr (plan::slices > 0) passes->add_slices_by(&slices_);
  }

  Rank& rank_;
  parameter_store<Job, Rank>& store_;
  slice_sums<Job, Rank> const& slices_;
  typename Rank::device_type::arena activations_{};
  std::optional<passes_type> training_{}, evaluation_{};
  std::optional<purpose> last_run_{};
  typename Rank::device_type::graph recorded_{};
  std::uint64_t recorded_source_ = 0;
};

}  // namespace plait::execution
