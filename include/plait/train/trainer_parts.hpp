// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/prediction.hpp"
#include "plait/run/stage_executor.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/checks/batch_checks.hpp"
#include "plait/train/checks/not_finite.hpp"
#include "plait/train/checks/set_up_checks.hpp"
#include "plait/train/common_update.hpp"
#include "plait/train/hooks/averages.hpp"
#include "plait/train/hooks/buffers.hpp"
#include "plait/train/hooks/signal_votes.hpp"
#include "plait/train/hooks/step_hook.hpp"
#include "plait/train/hooks/trainer_generation.hpp"
#include "plait/train/measures/loss_terms.hpp"
#include "plait/train/options/trainer_options.hpp"
#include "plait/train/state/imported_values.hpp"
#include "plait/train/state/parameter_store.hpp"
#include "plait/train/state/state_ages.hpp"
#include "plait/train/state/state_element.hpp"
#include "plait/train/state/step_memory.hpp"
#include "plait/train/state/training_state.hpp"
#include "plait/train/trainer_executor.hpp"
#include "plait/train/trainer_passes.hpp"
#include "plait/train/work_between_steps.hpp"

namespace plait::execution {

/// The parts of a trainer: parameters, optimizer, executor and hooks. trainer_on has the functions
/// that programs call; this class has the state and the work that these functions share. The
/// constructor makes the parts and does not communicate; set_up() does all communication that
/// precedes the first step. A step is then three calls: begin() checks the batch and uploads the
/// numbers of the step, trainer_executor::run() enqueues the operations of its program, and
/// trainer_executor::read_numbers() waits for the device and downloads the loss. Parts that
/// training itself does not need, such as averages, are hooks. The list of hooks is known at
/// compile time.
///
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank, class Optimizer>
class trainer_parts {
  using plan = typename Job::plan_type;
  using device_type = typename Rank::device_type;

 public:
  using job_type = Job;
  using rank_type = Rank;
  using terms = loss_terms<plan, typename Job::element>;
  using numbers = step_scalars<Optimizer, terms::count>;
  using passes_type = stage_executor<Job, Rank>;
  using batch_type = device_batch<typename device_type::memory>;
  using elements = element_types<typename Job::element, typename Job::parameter_element,
                                 typename Job::gradient_element,
                                 state_element_of<Optimizer, typename Job::parameter_element>>;

 private:
  using generation_type =
      trainer_generation<Rank, numbers, std::conditional_t<plan::is_elastic, elements, void>>;

  std::uint64_t number_;  ///< the number of this trainer, which identifies its calls on all ranks
  generation_type generation_;
  signal_votes signals_;
  buffers<Job, averages<elements, Rank>> followed_{averaged};

 public:
  /// Makes the parts of a trainer. The constructor does not communicate.
  [[gnu::cold]] trainer_parts(Rank& on, Optimizer with, trainer_options const& chosen)
      : number_(in_mesh(on, plan::grid).next_trainer()),
        generation_(on, facts_of_plan<plan>, kind_of_state<Job, numbers>()),
        signals_(chosen.stop),
        rank(on),
        rule(checked(std::move(with))),
        options(checked<plan>(chosen, on.grid())),
        store(on, facts_of_plan<plan>, parameters_on<plan>(on), held.arenas, Optimizer::states,
              chosen.average > 0),
        averaged(on, facts_of_plan<plan>, store, held.arenas, chosen.average),
        executor(on, rule, options, store, hooks) {}
  trainer_parts(trainer_parts const&) = delete;
  trainer_parts& operator=(trainer_parts const&) = delete;
  [[gnu::cold]] ~trainer_parts() = default;

  /// Brings all ranks to the same state before the first step. A rank computes its start values, or
  /// takes over the state that an earlier generation of an elastic job has left on the rank. Then
  /// the ranks compare their trainers: if the learning rate were 1e-3 on rank 0 and 1e-4 on rank 1,
  /// training would continue without an error and produce nonsense, so both ranks throw the same
  /// input_error. In an elastic job, ranks that lack the newest state then receive it. All ranks
  /// call this function once, before all other functions.
  ///
  /// Moves:  transfers of the plan's list for the set-up, in this order: in an elastic job, the
  ///         list of ranks that an earlier generation has compared; with several ranks, the numbers
  ///         of the trainer, the factors of the parameters if their hashes differ, and the kind of
  ///         the device if the plan is reproducible; in an elastic job, the step of each rank, and
  ///         then the state for ranks that lack it (transfer_state). Start values are not
  ///         transferred.
  /// Errors: input_error that names the first difference, on all ranks.
  [[gnu::cold]] void set_up() {
    auto const mine = calls();
    if (!generation_.take_over(store, options.average > 0, name())) start();
    executor.lay_out_updates(held.ages);
    generation_.introduce(gather_numbers());
    if (rank.world_size() > 1)
      compare_trainers(gather_numbers(), numbers_to_compare<plan>(rank.grid()), number_, rule,
                       options, rank.device().kind());
    if constexpr (plan::is_elastic) {
      generation_.meet(
          gather_numbers(),
          {.optimizer_states = Optimizer::states,
           .state_bytes = state_bytes_of<Optimizer>(),
           .averages = options.average > 0},
          name(),
          [this](numbers const& last) { executor.catch_up(last, held.step, held.ages.oldest()); },
          [this] { start(); });
      executor.lay_out_updates(held.ages);  // this rank may have received ages from another rank
    }
  }

  /// Computes the loss of a batch and, on the ranks that measure, calls each(row, outputs) for each
  /// row of its outputs.
  template <class Each>
  [[gnu::cold]] numbers const& measure(batch_type const& batch, workload const& load, Each each) {
    auto with = begin(batch, trainer_program::measured_loss);
    auto made = outputs_.measured(rank, with.passes, batch, load, each);
    auto program = executor.passes.measured_program(load);
    for (auto const& reached : program) {
      auto const& now = reached.now;
      bool const is_row = now.row >= 0;
      if (is_row ? program.transfers().row(now.row).what.place == transfer_place::output
                 : now.what == operation_kind::take)
        made.gather_output();
      else if (now.what == operation_kind::measure) made.measure(now.microbatch);
      else if (is_row) executor.transfer(program.transfers(), now, with);
      else if (is_pass(now.what)) with.passes.run(now, with.frame);
      else executor.compute(now, with);
    }
    return executor.read_numbers();
  }
  /// Begins an evaluation of a data set. `measures`: the names of the measures, which must be equal
  /// on all ranks.
  [[gnu::cold]] void begin_evaluation(std::string measures) { measures_ = std::move(measures); }
  /// Replaces each of this rank's sums for measures by its sum over all ranks.
  [[gnu::cold]] void sum_measured(workload const& load, std::span<double> numbers_of_measures) {
    outputs_.sum(rank, load, numbers_of_measures);
  }

  /// Returns the model's outputs for a batch; see trainer_on::predict.
  std::span<typename Job::element const> predict(batch_type const& batch, predicted which) {
    require_common("predict");
    check(batch, false);
    apply_pending();
    averaged.gather_parameters();
    auto& ready = passes_for(batch, false);
    auto frame =
        ready.frame_of(batch, context_for(batch, false), {}, 0, passes_type::all_items - 1);
    auto const program = which == predicted::of_all ? trainer_program::outputs_of_all
                                                    : trainer_program::outputs_of_rank;
    return outputs_.run(rank, executor.passes.program(program), ready, frame, which);
  }

  /// Returns the report of the last step, or nullopt; see trainer_on::last_report.
  [[nodiscard]] std::optional<step_report> last_report() const {
    if (held.step == held.origin.step) return std::nullopt;
    auto report = report_of<terms>(held.last, held.step - 1);
    if constexpr (plan::delays) report.gradient_step = pending_.last_applied;
    if constexpr (plan::local_steps > 0) {
      report.replica = common_update_.replica();
      report.common_loss = last_common_loss_;
    }
    return report;
  }
  /// Returns last_report(), or a report that contains only the number of the last step if
  /// last_report() is nullopt.
  [[nodiscard]] [[gnu::cold]] step_report report_before() const {
    return last_report().value_or(step_report{.step = held.step - 1});
  }

  /// Returns an object through which ranks exchange small lists of numbers, to compare them.
  [[nodiscard]] [[gnu::cold]] number_gather gather_numbers() const {
    return {rank, facts_of_plan<plan>, executor.memory().agreed()};
  }

  PLAIT_IN_LOOPS passes_type& passes_for(batch_type const& batch, bool trains) {
    return executor.passes.get(
        trains, batch,
        [&] {
          return workload{.rows = batch.rows(),
                          .microbatches = batch.microbatches,
                          .block = plan::block_at(rank),
                          .data_ranks = plan::grid.ranks_at_launch(rank.grid()),
                          .optimizer_states = Optimizer::states,
                          .state_bytes = state_bytes_of<Optimizer>(),
                          .optimizer_scratch = executor.scratch_bytes(),
                          .averages = options.average > 0,
                          .ranked_sums = rank.sums_in_room()};
        },
        [&] { return name_on_rank(); });
  }

  /// Begins a program on a batch: checks the batch, makes the passes for its shape, and uploads the
  /// numbers that change from step to step.
  auto begin(batch_type const& batch, trainer_program what) {
    bool const trains = what <= trainer_program::only_gradients;
    if (!trains) require_common("evaluate");
    if constexpr (plan::slicing.is_given())
      require_slices(batch, plan::slicing, block_of(plan::samples, rank.grid(), rank.coordinates()),
                     name());
    check(batch, trains);
    if (what >= trainer_program::only_gradients) apply_pending();
    if (trains) averaged.begin_step(updates(what));
    else averaged.gather_parameters();
    auto& ready = passes_for(batch, trains);
    if (trains) held.is_ready = false;
    executor.upload(batch, held.step, held.last.skipped, held.ages.oldest());
    return executor.frame_of(ready, batch, context_for(batch, trains), updates(what));
  }
  /// Returns the program of the next step.
  [[nodiscard]] trainer_program program_of_step() const {
    if constexpr (plan::delays) {
      if (!pending_.are_due) return trainer_program::without_update;
      if (pending_.are_sums) return trainer_program::step_of_sums;
    } else if constexpr (plan::local_steps > 0) {
      if (common_update_.is_halted()) return trainer_program::without_update;
    }
    return trainer_program::whole_step;
  }
  /// Advances past a completed step, whose program was `what`, and completes the report of the
  /// step. If updates are delayed, the gradients of the step are pending now. If their loss is not
  /// finite and such steps are skipped, they are dropped; the loss is a sum over all ranks, so all
  /// ranks decide alike.
  void advance(numbers& now, trainer_program what, step_report& report) {
    if constexpr (plan::delays) {
      bool const drops =
          options.on_not_finite == trainer_options::not_finite::skip && !std::isfinite(report.loss);
      if (drops) ++now.skipped;
      report.skipped = now.skipped;
      pending_ = {.are_due = !drops, .are_sums = false, .last_applied = report.gradient_step};
      held.advance(now, updates(what));
    } else if constexpr (plan::local_steps > 0) {
      // The ages of all replicas stay equal: they count steps, also a replica's step without
      // update.
      held.advance(now, false);
      held.ages.advance();
    } else {
      held.advance(now);
    }
  }
  /// In a job with local_steps<H>, completes the report of a step and, after every H steps, makes a
  /// common update. Returns the sum of the ranks' votes, or 0 if no common update was made. All
  /// ranks call this function.
  ///
  /// Moves:  see common_update.
  /// Errors: see common_update.
  double end_local_step(step_report& report) {
    static_assert(plan::local_steps > 0);
    report.replica = common_update_.replica();
    common_update_.add(report, options.on_not_finite == trainer_options::not_finite::stop);
    last_common_loss_.reset();
    return held.step % plan::local_steps == 0 ? make_common_update(report) : 0;
  }
  /// In a job with replicas, makes a common update after the last step, unless the replicas have
  /// the common parameters already. If ranks have voted for an end, the job ends.
  void end_local_steps() {
    if constexpr (plan::local_steps > 0) {
      if (common_update_.has_common()) return;
      auto report = report_before();
      end_if(make_common_update(report), report);
    }
  }
  /// In a job with replicas, forgets the steps since the last common update, because the trainer
  /// continues from a checkpoint.
  void forget_local_steps() {
    if constexpr (plan::local_steps > 0) common_update_.restart();
    last_common_loss_.reset();
  }
  /// Ends the job if the sum of the ranks' votes is not 0. `report`: the report of the last step.
  void end_if(double votes, step_report const& report) {
    if (votes != 0)
      hooks.between_steps(
          {votes, report, gather_numbers(), [&](int signal) { hooks.at_end(signal, report); }});
  }
  /// In a job with replicas, checks that all replicas have the common parameters. `call`: the name
  /// of the trainer's function.
  ///
  /// Errors: error on all ranks, which names the step after which a program can call the function.
  void require_common(char const* call) const {
    if constexpr (plan::local_steps > 0)
      if (!common_update_.has_common()) refuse_between(call);
  }
  /// Returns the number of the step whose gradients the next step applies: the next step itself or,
  /// if updates are delayed, the step before it; -1 if no gradients are pending.
  [[nodiscard]] std::int64_t applied_step() const {
    if constexpr (plan::delays) return pending_.are_due ? held.step - 1 : -1;
    else return held.step;
  }
  /// If updates are delayed, applies the pending gradients now, with the learning rate of the step
  /// that has computed them. The next step then has nothing to apply. All ranks call this function.
  ///
  /// Moves:  the transfers of a step that reduce gradients, unless this has been done before, and
  ///         the sums of squares.
  /// Errors: not_finite_error, on all ranks, if the norm of the gradients is not finite and the job
  ///         ends at such steps.
  void apply_pending() {
    if constexpr (plan::delays)
      if (pending_.are_due) apply_pending_now();
  }
  /// If updates are delayed, completes the reduction of the pending gradients, without applying
  /// them. All ranks call this function.
  ///
  /// Moves: the transfers of a step that reduce gradients, unless this has been done before.
  [[gnu::cold]] void reduce_pending() {
    if constexpr (plan::delays) {
      if (pending_.are_sums) return;
      auto program = executor.passes.pending_program(false, false);
      executor.run_pending(program);
      pending_.are_sums = true;
    }
  }
  /// Marks the contents of the arena of pending gradients as reduced. `are_due`: true if the next
  /// step applies them.
  void set_pending_sums(bool are_due) {
    pending_.are_due = are_due;
    pending_.are_sums = true;
  }
  /// Returns true if gradients are pending, which a checkpoint has to contain.
  [[nodiscard]] bool has_pending() const { return pending_.are_due; }
  /// Runs a program on a batch and returns its numbers.
  numbers const& run(batch_type const& batch, trainer_program what) {
    auto with = begin(batch, what);
    executor.run(executor.passes.program(what), with);
    return executor.read_numbers();
  }
  step_report read_report() { return report_of<terms>(executor.read_numbers(), held.step); }

  /// Marks the collective calls of this rank as calls of this trainer while the returned object
  /// exists. So a call of this trainer is never matched with another trainer's call on another
  /// rank.
  [[nodiscard]] auto messages() { return rank.calls_for(number_); }
  [[nodiscard]] auto calls() {
    hooks.before_call();
    return messages();
  }
  /// Returns true if the state comes from an earlier generation of an elastic job.
  [[nodiscard]] bool is_held() const { return generation_.is_held(); }
  /// Returns the number of bytes that this rank has allocated; see trainer_on::allocated.
  [[nodiscard]] ext::memory_need allocated() const {
    auto need = store.allocated();
    need.optimizer += executor.scratch_bytes();
    need.activations = executor.passes.bytes();
    need.outputs = outputs_.bytes();
    need.averages = averaged.bytes();
    need.numbers = executor.numbers_bytes();
    need.workspace = detail::workspace_of(rank.device());
    return need;
  }
  /// Calls load(), which imports parameters on this rank and returns their hashes. The ranks then
  /// compare the hashes, and reset the optimizer's states and the averages of the imported
  /// parameters.
  template <class Load>
  [[gnu::cold]] void take_parameters(Load load, imported_values::extent extent) {
    averaged.require_parameters("import_parameters");
    require_common("import_parameters");
    if (generation_.is_held()) return;
    auto const mine = calls();
    apply_pending();
    start_anew(compare_imported<plan>(gather_numbers(), name(), load(), extent));
  }
  /// Sets the ages of the optimizer's states. `age_of(parameter)` returns the number of updates
  /// that the states of a parameter of the model have had; it returns the same on all ranks.
  [[gnu::cold]] void set_ages(function_reference<std::int64_t(parameter_block const&)> age_of) {
    lean_vector<std::int64_t> ages;
    for (auto const& parameter : plan::blocks_of_model(rank.grid()))
      ages.push_back(plan::entries[parameter.entry].has_gradient() ? age_of(parameter)
                                                                   : state_ages::no_state);
    bool const were_equal = held.ages.are_equal();
    held.ages.set(std::move(ages));
    if (!were_equal || !held.ages.are_equal()) executor.lay_out_updates(held.ages);
  }
  /// Ends training at a step that is not finite. The weights have not been updated, so all ranks
  /// repeat the forward of the step, to find the first layer whose output is not finite. All ranks
  /// then throw the same not_finite_error, which names this layer.
  [[noreturn]] [[gnu::cold]] void end_at_nan(batch_type const& batch, step_report const& report) {
    // The gradients of this step have replaced the pending gradients.
    pending_.are_due = pending_.are_sums = false;
    auto with = executor.frame_of(passes_for(batch, false), batch, context_for(batch, true));
    forward_watch watch;
    with.frame.watch = &watch;
    executor.run(executor.passes.program(trainer_program::only_forward), with);
    rank.device().synchronize();  // the host reads the findings
    throw not_finite_error(
        not_finite_text(gather_numbers(), leaf_names(plan::tree), report, last_report(), watch));
  }

  // The rank, the optimizer and the options.
  Rank& rank;
  Optimizer rule;
  trainer_options options;
  // Parameters.
  training_state<Rank, numbers>& held = generation_.held();
  parameter_store<elements, Rank> store;

  // Hooks.
  averages<elements, Rank> averaged;
  work_between_steps side_work{};
  using hooks_type = step_hooks<decltype(averaged), buffers<Job, decltype(averaged)>,
                                work_between_steps, generation_type, signal_votes>;
  hooks_type hooks{averaged, followed_, side_work, generation_, signals_};
  trainer_executor<Job, Rank, Optimizer, hooks_type> executor;
  forward_watch* step_watch = nullptr;  ///< shows the values of each step; null: none

 private:
  double make_common_update(step_report& report) {
    auto const made = common_update_.update(executor, options.outer, hooks.votes(), name());
    report.common_loss = last_common_loss_ = made.loss;
    return made.votes;
  }

  /// The state of the arena of pending gradients, if updates are delayed.
  struct pending_state {
    bool are_due = false;            ///< true if the next step applies the gradients in the arena
    bool are_sums = true;            ///< true if they have been reduced
    std::int64_t last_applied = -1;  ///< the step whose gradients the last step has applied
  };

  [[gnu::cold]] void apply_pending_now() {
    averaged.begin_step(true);
    executor.upload_of_update(held.step, held.last.skipped, held.ages.oldest());
    auto program = executor.passes.pending_program(pending_.are_sums, true);
    executor.run_pending(program);
    numbers const& now = executor.read_numbers();
    pending_.are_due = false;
    pending_.are_sums = true;
    if (!std::isnan(now.gradient_scale)) return held.ages.advance();
    ++held.last.skipped;
    if (options.on_not_finite == trainer_options::not_finite::stop)
      throw not_finite_error(
          {name(), ": the norm of the gradients of step ", held.step - 1,
           " is not finite; they have not changed the weights; to skip such gradients, set "
           ".on_not_finite = trainer_options::not_finite::skip"});
  }

  [[noreturn]] [[gnu::cold]] void refuse_between(char const* call) const {
    constexpr int each = std::max(1, plan::local_steps);
    std::int64_t const next = (held.step / each + 1) * each;
    if (held.step % each == 0)
      throw error({name(), ": ", call, " cannot run: the common update after step ", held.step - 1,
                   " ended with an error, so the parameters still differ between replicas; resume "
                   "from a checkpoint"});
    throw error({name(), ": ", call, " needs one value of each parameter, but after ", held.step,
                 " steps the parameters differ between the replicas of local_steps<", each,
                 ">; call it when ", next,
                 " steps are done, which is when the report of a step has "
                 "a common_loss, or call after_steps() first if no step follows"});
  }

  /// Returns the name of the trainer, with which messages begin.
  [[nodiscard]] [[gnu::cold]] std::string name() const { return concat({"trainer ", number_}); }
  [[nodiscard]] [[gnu::cold]] std::string name_on_rank() const {
    return concat({name(), ": rank ", rank.world_rank()});
  }

  void check(batch_type const& batch, bool trains) {
    require_in_place(batch, [&] { return name(); });
    require_purpose(batch, trains, [&] { return name(); });
    if (compared_.is_new(batch) && rank.world_size() > 1)
      compare_batches(gather_numbers(), batch, measures_);
    check_tokens<least_vocabulary(plan::tree)>(batch, [&] { return name_on_rank(); });
  }
  [[nodiscard]] layer_context context_for(batch_type const& batch, bool training) const {
    return {.seed = options.seed,
            .step = &executor.memory().numbers()->step,
            .training = training,
            .batch = batch.samples,
            .sequence = batch.sequence,
            .tensor_rank = rank.tensor_rank(),
            .tensor_ranks = plan::tensor_ranks};
  }

  [[gnu::cold]] void start() {
    store.start(options.seed);
    averaged.restart();
  }
  /// Resets the optimizer's states and the average of each parameter whose number n has `which[n]`
  /// != 0. The states become zeros of age 0, and the average becomes the parameter.
  [[gnu::cold]] void start_anew(std::vector<char> const& which) {
    auto const queue = rank.device().on(stream::compute);
    for (auto const& parameter : store.local())
      for (auto const& block : store.owned()) {
        auto const common = overlap(block.elements, parameter);
        if (which[std::size_t(parameter.number)] == 0 || common.count == 0) continue;
        std::size_t const at = common.offset - block.elements.offset;
        for (std::size_t k = 0; k < std::size_t(Optimizer::states); ++k)
          queue.fill(typename elements::state_element{},
                     store.state_of(block) + k * store.owned_count() + at, common.count);
        averaged.copy(block, at, common.count);
        if constexpr (plan::local_steps > 0)
          queue.fill(typename Job::parameter_element{0}, store.outer_momentum_of(block) + at,
                     common.count);
      }
    if constexpr (plan::local_steps > 0) store.keep_common();
    set_ages([&](parameter_block const& parameter) {
      return which[std::size_t(parameter.number)] != 0 ? 0 : held.ages.of(parameter.number);
    });
  }

  prediction<Job, Rank> outputs_;
  compared_batches compared_{};
  pending_state pending_{};
  // Makes common updates; does nothing if the plan has no replicas.
  std::conditional_t<(plan::local_steps > 0),
                     common_update<Job, Rank, parameter_store<elements, Rank>>, no_common_update>
      common_update_{rank, store};
  std::optional<double> last_common_loss_{};  ///< common_loss of the last step
  std::string measures_{};                    ///< the names of the measures of the last evaluation
};

}  // namespace plait::execution
