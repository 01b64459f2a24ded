// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "plait/backend/matrix.hpp"
#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/run/transfer_runner.hpp"
#include "plait/train/checks/not_finite.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait::execution {

/// The functions by which a common update computes each element. `weight` is the weight of a
/// replica; the outer step has `rate` and `momentum`, see ext::outer_step.
struct weighted_difference {
  double weight;
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T common, T mine) const {
    return static_cast<T>(weight) * (common - mine);
  }
};
struct next_outer_momentum {
  double momentum;
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T before, T difference) const {
    return static_cast<T>(momentum) * before + difference;
  }
};
struct next_common_parameter {
  double rate, momentum;
  template <class T>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE constexpr T operator()(T common, T difference,
                                                          T outer_momentum) const {
    return common - static_cast<T>(rate) * (difference + static_cast<T>(momentum) * outer_momentum);
  }
};

/// Makes the common updates of replicas that train on their own for some steps, see local_steps.
/// Between two common updates, the object adds up the labels and the losses of the steps of this
/// rank's replica. For example, if the replicas have counted 300 and 100 labels since the last
/// common update, their weights in the next one are 3/4 and 1/4.
///
/// If a step of a replica is not finite, the trainer does not update the parameters of the replica
/// until the next common update. This update begins with an exchange of the replicas' numbers, so
/// all replicas throw the same not_finite_error before any parameter changes.
///
/// `Store`: the parameter_store of the trainer.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank, class Store>
class common_update {
  using plan = typename Job::plan_type;
  using element = typename Job::parameter_element;

 public:
  /// The arguments outlive this object.
  [[gnu::cold]] common_update(Rank& rank, Store const& store)
      : rank_(rank),
        store_(store),
        replica_(rank.grid().place_in_group(rank.coordinates(), plan::rules.local_axes)),
        numbers_(std::size_t(rank.grid().size(plan::rules.local_axes))),
        list_(transfers_on<plan>(rank, {}, planning::job_part::common_update)) {}

  /// Returns the number of this rank's replica.
  [[nodiscard]] int replica() const { return replica_; }
  /// Returns true if a step of the replica since the last common update was not finite, so that the
  /// replica does not update its parameters.
  [[nodiscard]] bool is_halted() const { return mine_.bad_step != 0; }
  /// Returns true if all replicas have the common parameters: before the first step, and after a
  /// common update until the next step.
  [[nodiscard]] bool has_common() const { return has_common_; }

  /// Adds a step of this replica. `stops`: true if the job ends at a step that is not finite.
  void add(step_report const& report, bool stops) {
    has_common_ = false;
    ++added_;
    mine_.steps = static_cast<double>(report.step + 1);
    mine_.labels += report.labels;
    mine_.loss += report.labels * report.loss;
    mine_.losses += report.loss;
    if (!stops || is_halted() ||
        (std::isfinite(report.loss) && std::isfinite(report.gradient_norm)))
      return;
    mine_.bad_step = static_cast<double>(report.step + 1);
    mine_.bad_loss = report.loss;
    mine_.bad_norm = report.gradient_norm;
  }

  /// Forgets the steps since the last common update, because all replicas have the common
  /// parameters now.
  [[gnu::cold]] void restart() {
    mine_ = {};
    added_ = 0;
    has_common_ = true;
  }

  /// The results of a common update: the sum of the votes of all ranks, and the loss of the samples
  /// of all replicas since the last common update.
  struct result {
    double votes = 0, loss = 0;
  };
  /// Makes a common update. All ranks call this function.
  ///
  /// `executor`: the trainer_executor; `outer`: the outer step; `vote`: the vote of this rank, see
  /// step_hook; `name`: the name of the trainer, with which messages begin.
  /// Moves:  the transfers that the plan lists for `job_part::common_update`.
  /// Errors: not_finite_error, the same on all ranks, if a step of a replica was not finite; error
  ///         on all ranks if the replicas have done different numbers of steps.
  template <class Executor>
  result update(Executor& executor, ext::outer_step const& outer, double vote,
                std::string const& name) {
    exchange_numbers(vote, reinterpret_cast<double*>(executor.memory().agreed()));
    result out;
    double labels = 0, losses = 0;
    for (auto const& one : numbers_) {
      if (one.steps != numbers_[0].steps) refuse_unequal_steps(one, name);
      labels += one.labels;
      out.loss += one.loss;
      losses += one.losses;
      out.votes += one.votes;
      if (one.bad_step != 0)
        throw not_finite_error(not_finite_text(name, {numbers_.data(), numbers_.size()}));
    }
    auto const replicas = static_cast<double>(numbers_.size());
    // If no replica has counted a label, losses without labels train all replicas alike.
    out.loss = labels != 0 ? out.loss / labels : losses / (replicas * added_);
    outer_step_of(executor, labels != 0 ? mine_.labels / labels : 1 / replicas, outer);
    restart();
    return out;
  }

 private:
  [[nodiscard]] auto queue() const { return rank_.device().on(stream::compute); }

  void exchange_numbers(double vote, double* room) {
    for (auto& one : numbers_) one = {};
    auto& mine = numbers_[std::size_t(replica_)];
    if (holds_the_one_copy(plan::rules.kept.replaced(shard<dim::elements>, invariant),
                           rank_.coordinates()))
      mine = mine_;
    mine.votes = vote;
    std::size_t const bytes = numbers_.size() * sizeof mine;
    rank_.device().upload(numbers_.data(), room, bytes);
    run(numbers_program_, planning::transfer_place::replica_numbers,
        planning::program_buffer::numbers,
        [&](auto const& transfers, auto const& now) { transfers.sum(now.row, room); });
    rank_.device().download(room, numbers_.data(), bytes);
    rank_.device().synchronize();  // the host reads the numbers
  }

  [[noreturn]] [[gnu::cold]] void refuse_unequal_steps(planning::numbers_of_replica const& one,
                                                       std::string const& name) const {
    auto const steps_of = [](auto const& of) { return static_cast<std::int64_t>(of.steps); };
    throw error(
        {name, ": a common update begins on replica 0 after ", steps_of(numbers_[0]),
         " steps, but on replica ", static_cast<std::int64_t>(&one - numbers_.data()), " after ",
         steps_of(one),
         "; call step() equally often on all ranks. A loop may end by report.common_loss, but not "
         "by report.loss, which differs between replicas"});
  }

  template <class Executor>
  void outer_step_of(Executor& executor, double weight, ext::outer_step const& outer) {
    auto const each = [&](auto const& f, std::size_t count, element* to, auto const*... from) {
      queue().run(operation::map{}, f, ext::matrix<element>{to, 1, count},
                  ext::matrix<element const>{from, 1, count}...);
    };
    auto* const differences = store_.gradients();
    for (auto const& block : store_.owned())
      each(weighted_difference{weight}, block.elements.count, differences + block.gradients_at,
           store_.common_of(block), store_.parameters_of(block));
    run(differences_program_, planning::transfer_place::differences,
        planning::program_buffer::gradients,
        [&](auto const& transfers, auto const& now) { executor.sum(transfers, now, differences); });
    for (auto const& block : store_.owned()) {
      std::size_t const count = block.elements.count;
      auto* const common = store_.common_of(block);
      auto* const momentum = store_.outer_momentum_of(block);
      auto const* const sum = differences + block.gradients_at;
      each(next_outer_momentum{outer.momentum}, count, momentum, momentum, sum);
      each(next_common_parameter{outer.rate, outer.momentum}, count, common, common, sum, momentum);
      queue().copy_bytes(common, store_.parameters_of(block), count * sizeof(element));
      if (auto* const copies = store_.copies_of(block)) queue().convert(common, copies, count);
    }
    rank_.device().synchronize();  // the next program assumes that no stream is working
  }

  /// Carries out the rows of the list with the label `place`. The first call makes their program.
  template <class CarryOut>
  void run(std::optional<step_executor<Rank>>& program, planning::transfer_place place,
           planning::program_buffer touched, CarryOut carry_out) {
    if (!program)
      program.emplace(rank_, list_, planning::program_of_rows(rank_.grid(), list_, place, touched));
    for (auto const& reached : *program)
      if (reached.now.row >= 0) carry_out(program->transfers(), reached.now);
  }

  Rank& rank_;
  Store const& store_;
  int replica_;
  lean_vector<planning::numbers_of_replica> numbers_;  // the numbers of all replicas
  lean_vector<planning::transfer> list_;
  std::optional<step_executor<Rank>> numbers_program_{}, differences_program_{};
  planning::numbers_of_replica mine_{};  // sums of this replica since the last common update
  int added_ = 0;                        // steps since the last common update
  bool has_common_ = true;
};

/// Takes the place of a common_update in jobs without replicas.
struct no_common_update {
  template <class... Arguments>
  explicit no_common_update(Arguments const&...) {}
};

}  // namespace plait::execution
