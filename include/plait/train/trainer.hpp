// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/caught_signal.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/batches.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/export.hpp"
#include "plait/train/measures/evaluation_sums.hpp"
#include "plait/train/measures/loss_terms.hpp"
#include "plait/train/measures/measures.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/options/rates.hpp"
#include "plait/train/options/stop_on_signals.hpp"
#include "plait/train/options/trainer_options.hpp"
#include "plait/train/state/imported_values.hpp"
#include "plait/train/state/step_memory.hpp"
#include "plait/train/trainer_parts.hpp"
#include "plait/train/trainer_state.hpp"

namespace plait::ext {

template <class Trainer>
class step_trace;

}  // namespace plait::ext

namespace plait::execution {

/// Holds the parameters of one rank's pipeline stage and trains them. Each rank of a launch makes a
/// trainer and calls step() with the global batches of `plait::batches`. For example, on 4 data
/// ranks with batches of 64 samples, each rank computes the gradients of 16 samples, the ranks add
/// the gradients up, and all ranks then have the same updated parameters.
///
/// All ranks of the job make a trainer and call the same functions in the same order, because most
/// calls communicate. With several trainers, all ranks also make them in the same order.
/// Cost:   the first step on batches of a new shape allocates memory; later steps do not. A trainer
///         allocates at most the memory that the plan states for the greatest shape.
/// Errors: an exception on one rank ends the step on all ranks. input_error if the launch has
///         another mesh than the job; input_error, with both values, if the ranks differ in the
///         plan, the options, the optimizer or the batches. collective_mismatch if ranks call
///         different trainers at the same time, except with NCCL, which does not detect this.
///         out_of_memory with the memory that the plan needs. not_finite_error and
///         stopped_by_signal, depending on the options.
template <class Job, class Rank, class Optimizer>
class trainer_on {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using memory = typename Rank::device_type::memory;
  static constexpr bool takes_tokens = plan::tree.leaves[0].input().kind == value_kind::tokens;
  using terms = loss_terms<plan, T>;
  using target = typename terms::target;
  using batch_type = device_batch<memory>;
  using parts_type = trainer_parts<Job, Rank, Optimizer>;
  using numbers = step_scalars<Optimizer, terms::count>;

 public:
  using parameter_element = typename Job::parameter_element;
  using plan_type = plan;

  static_assert(plan::code.has_loss,
                "trainer<Job>: the job's model has no loss; write parallel<objective<Model, Loss>, "
                "Policy>");
  static_assert(optimizer<Optimizer>,
                "trainer<Job>(rank, optimizer): the second argument is not an optimizer; write "
                "plait::adamw{} or plait::sgd{}. An optimizer of your own must define `concept_tag "
                "= plait::optimizer_tag`, `numbers` with a `learning_rate`, `states`, `decays` and "
                "`numbers_of`");

  /// A batch of `plait::batches`. A batch for another job or another device, or an argument that is
  /// not a batch, does not compile.
  class given_batch {
   public:
    template <class Batch>
    given_batch(Batch const& batch) : of_(nullptr) {  // NOLINT: implicit
      if constexpr (is_batch<Batch>) of_ = &batch;
    }
    operator batch_type const&() const { return *of_; }  // NOLINT: implicit

   private:
    batch_type const* of_;
  };

  [[gnu::cold]] trainer_on(Rank& rank, Optimizer optimizer, trainer_options const& options = {})
      : of_(rank, std::move(optimizer), options) {
    of_.set_up();
  }

  [[nodiscard]] Rank& rank() { return of_.rank; }
  /// Returns the number of the next step, counted from 0.
  [[nodiscard]] std::int64_t step_number() const { return of_.held.step; }
  /// Returns the report of the last step, even if an earlier generation of an elastic job has done
  /// this step. Returns nullopt if no step has been done since the start, or since a checkpoint was
  /// loaded.
  [[nodiscard]] std::optional<step_report> last_report() const { return of_.last_report(); }

  /// Trains on the next global batch: forward, backward, reduction, clipping and update.
  ///
  /// Moves: the bytes of `plan::bytes_sent`.
  step_report step(given_batch given) {
    batch_type const& batch = given;
    of_.averaged.require_parameters("step");
    auto const mine = of_.calls();
    of_.hooks.before_step([&](int signal) { of_.hooks.at_end(signal, of_.report_before()); });
    // Replicas continue until the next common update after a signal, and wait as without a signal.
    caught_signal::ends_waits here(of_.options.stop != nullptr && plan::local_steps == 0);
    auto const what = of_.program_of_step();
    auto with = of_.begin(batch, what);
    auto& program = of_.executor.passes.program(what);
    with.frame.watch = of_.step_watch;
    // All conditions have the same value on all ranks. This is necessary, because a recorded
    // collective on one rank must not meet an unrecorded collective on another rank.
    if (of_.options.replay && what == trainer_program::whole_step && batch.description != nullptr &&
        batch.missing_samples == 0 && of_.step_watch == nullptr)
      of_.rank.device().replay(of_.executor.passes.recorded(batch.description->number),
                               [&] { of_.executor.run(program, with); });
    else of_.executor.run(program, with);
    numbers& now = of_.executor.read_numbers();
    if (std::isnan(now.gradient_scale)) ++now.skipped;  // the update was left out
    auto report = report_of<terms>(now, of_.held.step);
    report.gradient_step = of_.applied_step();
    report.waited = batch.waited;
    here.end();  // from here on, signals no longer end waits, because hooks may wait for files
    if (of_.step_watch != nullptr) of_.step_watch->recorder->end_step(report.step);
    // With replicas, a step that is not finite ends the job only at the next common update.
    if (plan::local_steps == 0 && of_.options.on_not_finite == trainer_options::not_finite::stop &&
        !(std::isfinite(report.loss) && std::isfinite(report.gradient_norm)))
      of_.end_at_nan(batch, report);
    of_.advance(now, what, report);
    of_.hooks.after_step();
    double votes = now.stop;
    if constexpr (plan::local_steps > 0) votes = of_.end_local_step(report);
    of_.end_if(votes, report);
    return report;
  }

  /// Sets the hook for an early end of the job: by a signal, by failed work between the steps, or
  /// because an elastic job cannot continue. Each rank calls hook(report of the last step), and
  /// then throws `stopped_by_signal` or another job_ended. A typical hook saves a checkpoint.
  /// Either all ranks set a hook, or no rank sets a hook.
  void on_stop(std::function<void(step_report const&)> hook) {
    of_.side_work.on_stop(std::move(hook));
  }

  /// Calls work(), for example to write a log, on this rank. If work() throws, all ranks end with
  /// work_failed after the next step. If there are several ranks, this requires
  /// `trainer_options::stop` or an elastic job, because ranks vote only then. Without votes, this
  /// call throws the exception at once, on this rank alone.
  template <class Work>
  void between_steps(Work&& work) {
    of_.side_work.run(std::forward<Work>(work),
                      of_.hooks.gives_votes() || of_.rank.world_size() == 1);
  }
  /// Ends the job with work_failed if work between the steps has failed on a rank after the last
  /// step, when no later step informs the other ranks. Under delayed<1> it first applies the
  /// gradients of the last step. Under local_steps<H> it first makes a common update of the steps
  /// since the last one, if there are any. All ranks call this function after the last step.
  ///
  /// Moves: one sum over all ranks; under delayed<1> also what the update of a step moves;
  ///        under local_steps<H> also a common update.
  void after_steps() {
    auto const mine = of_.calls();
    of_.apply_pending();
    of_.end_local_steps();
    of_.side_work.end_if_failed(of_.gather_numbers(), of_.report_before());
  }

  /// Computes the gradients of a global batch, by forward, backward and reduction, without an
  /// update. The gradients stay in the arena until the next call that trains; export_gradients()
  /// reads them. Under delayed<1>, the gradients of the last step are applied first.
  step_report gradients_of(given_batch batch) {
    static_assert(plan::local_steps == 0,
                  "trainer.gradients_of(batch): the job has local_steps<H>, whose replicas do not "
                  "sum gradients, so there are no gradients of a global batch; leave local_steps "
                  "out, or call step(batch)");
    auto const mine = of_.calls();
    auto with = of_.begin(batch, trainer_program::only_gradients);
    of_.executor.run(of_.executor.passes.program(trainer_program::only_gradients), with);
    auto const report = of_.read_report();
    if constexpr (plan::delays) of_.set_pending_sums(false);
    return report;
  }

  /// Returns the loss of a global batch. The forward runs without dropout, and no gradients are
  /// computed. Under delayed<1> the pending gradients are applied first, as in each function below
  /// that reads or imports parameters; this moves what the update of a step moves.
  double evaluate(given_batch batch) {
    auto const mine = of_.calls();
    return report_of<terms>(of_.run(batch, trainer_program::only_loss), of_.held.step).loss;
  }

  /// Evaluates all samples of a data set and returns the value of each measure, as a tuple, the
  /// same on all ranks: `auto [loss, accuracy] = trainer.evaluate(data, global_batch<64>{},
  /// measures::mean_loss{}, measures::accuracy{})`.
  ///
  /// Each sample counts once, also in the last, partial batch. All ranks pass the same arguments.
  /// Moves: for each batch the transfers of an evaluation and the outputs within the last stage; at
  ///        the end, one all_reduce of the sums over all ranks.
  /// Cost:  makes its own batches; needs the memory that the plan states for a workload with
  ///        `measured_numbers`.
  template <class Data, class Batch, class... Measures>
  [[gnu::cold]] auto evaluate(Data const& data, Batch size, Measures... measures) {
    evaluation_sums<terms, Measures...> sums;
    constexpr std::size_t count = sums.count;
    auto const mine = of_.calls();
    of_.begin_evaluation(sums.names());
    workload load{};
    auto all = batches<batch_element>(
        data, size, of_.rank,
        {.how = sample_order::sequential, .last = last_batch::keep, .for_evaluation = true});
    for (auto const& batch : all) {
      load = {.rows = batch.rows(),
              .microbatches = batch.microbatches,
              .block = plan::block_at(of_.rank),
              .data_ranks = plan::grid.ranks_at_launch(of_.rank.grid()),
              .optimizer_states = Optimizer::states,
              .state_bytes = state_bytes_of<Optimizer>(),
              .measured_numbers = count};
      auto const add = [&](numbers const& seen) {
        sums.add_loss(report_of<terms>(seen, of_.held.step).terms, seen.label_count);
      };
      if constexpr (count == 0) add(of_.run(given_batch(batch), trainer_program::only_loss));
      else add(of_.measure(given_batch(batch), load, sums.adder(batch)));
    }
    if constexpr (count > 0) of_.sum_measured(load, sums.numbers());
    return sums.values(measures...);
  }

  /// Returns the model's outputs for the samples of this rank's data rank or, with
  /// predicted::of_all, of all data ranks. Every rank gets outputs.
  ///
  /// Shapes: (samples, sequence, width), samples in the order of the batch; empty sample slots are
  ///         left out. The span is valid until the next call.
  std::span<T const> predict(given_batch given, predicted which = predicted::of_data_rank) {
    batch_type const& batch = given;
    if (which == predicted::nothing) return {};
    auto const mine = of_.calls();
    return of_.predict(batch, which);
  }

  /// Gathers all parameters to the root rank, one after the other in the order of the layers. On
  /// the root rank, it calls sink(name, parameter_info, values) for each parameter, without
  /// padding. All ranks call this function.
  ///
  /// Moves: see export_tensors.
  template <class Sink>
  void export_parameters(Sink sink) {
    of_.require_common("export_parameters");
    auto const mine = of_.calls();
    of_.apply_pending();
    of_.averaged.gather_parameters();
    export_tensors<plan>(of_.rank, of_.store, of_.store.parameters(), false, sink);
  }
  /// Gathers the gradients of the last step to the root rank, in the same way as export_parameters.
  /// All ranks call this function.
  template <class Sink>
  void export_gradients(Sink sink) {
    static_assert(plan::local_steps == 0,
                  "trainer.export_gradients(sink): the job has local_steps<H>, whose replicas do "
                  "not sum gradients, so there are no gradients of a global batch; leave "
                  "local_steps out, or call export_parameters after a common update");
    auto const mine = of_.calls();
    of_.reduce_pending();
    export_tensors<plan>(of_.rank, of_.store, of_.executor.applied_gradients(), true, sink);
  }
  /// Returns the names and shapes of all parameters of the model, without padding, in the order of
  /// the layers.
  [[nodiscard]] [[gnu::cold]] std::vector<saved_tensor> parameters() const {
    return tensors_of<plan>(of_.rank.grid());
  }
  /// Imports parameters, for example pretrained weights. Calls source(name, parameter_info, span)
  /// for each parameter of this rank's stage, and keeps this rank's block. The source fills the
  /// span, which has room for the whole parameter without padding. If the source returns false, the
  /// parameter stays as it is. The optimizer's states and the average of an imported parameter are
  /// reset, also in a trainer that has trained: the states become zeros of age 0, and the average
  /// becomes the imported values. The number of the step does not change. All ranks call this
  /// function. A later generation of an elastic job keeps its trained parameters and imports
  /// nothing.
  ///
  /// Moves:  a hash of each parameter, to all ranks.
  /// Errors: input_error that names the first parameter with a value that is not finite; on all
  ///         ranks, input_error if the values of the source differ between ranks.
  template <class Source>
  void import_parameters(Source source) {
    of_.take_parameters([&] { return of_.store.import_from(source); }, imported_values::whole);
  }

  /// Returns the state of this rank, which plait/checkpoint saves and restores. The trainer
  /// outlives the returned object. Under delayed<1> all ranks call this function, which completes
  /// the reduction of the pending gradients.
  [[nodiscard]] [[gnu::cold]] std::unique_ptr<saved_state> state() {
    of_.averaged.require_parameters("state");
    of_.require_common("state");
    if constexpr (plan::delays) {
      auto const mine = of_.calls();
      of_.reduce_pending();
    }
    return std::make_unique<trainer_state<parts_type>>(of_);
  }

  /// Calls body() with the averages of `trainer_options::average` in the place of the parameters,
  /// and returns the result of body(). Inside body(), evaluate, predict and export_parameters use
  /// the averages: `trainer.with_ema([&] { return trainer.evaluate(batch); })` is the loss of the
  /// averages. The averages begin as the start weights, or as imported weights. After the call,
  /// even after an exception, the parameters are back in their place. All ranks call this function.
  ///
  /// Moves: nothing by itself, except that under delayed<1> the pending gradients are applied
  /// first.
  ///        If ranks own blocks, as under `zero<1>`, the first call in body()
  ///        that uses parameters gathers the blocks, in the same way as a step after an update. The
  ///        first such call after with_ema gathers the blocks, too.
  /// Errors: error if there are no averages, or if body() calls step, state, import_parameters or
  ///         with_ema.
  template <class Body>
  decltype(auto) with_ema(Body&& body) {
    if constexpr (plan::delays) {
      auto const mine = of_.calls();
      of_.apply_pending();
    }
    auto const in_place = of_.averaged.in_place();
    return std::forward<Body>(body)();
  }

  /// Returns the number of bytes that a step on these batches needs, on the rank that needs the
  /// most memory.
  template <class Batches>
  [[nodiscard]] [[gnu::cold]] std::size_t planned_bytes(Batches const& all) const {
    return plan::bytes_per_rank(workload{.rows = all.rows(),
                                         .microbatches = all.microbatches(),
                                         .block = plan::block_at(of_.rank),
                                         .data_ranks = plan::grid.ranks_at_launch(of_.rank.grid()),
                                         .optimizer_states = Optimizer::states,
                                         .state_bytes = state_bytes_of<Optimizer>(),
                                         .optimizer_scratch = of_.executor.scratch_bytes(),
                                         .sample_weights = all.has_weights(),
                                         .documents = all.has_documents(),
                                         .averages = of_.options.average > 0,
                                         .gradient_norm = needs_norm(of_.options),
                                         .stops = of_.hooks.gives_votes(),
                                         .ranked_sums = of_.rank.sums_in_room()});
  }
  /// Returns the number of bytes that this rank has allocated for the memory that the plan lists
  /// and for workspaces of libraries, without batches.
  [[nodiscard]] ext::memory_need allocated() const { return of_.allocated(); }

 private:
  using input_element = std::conditional_t<takes_tokens, std::int32_t, T>;
  template <class Other>
  static constexpr bool is_batch = detail::check_batch<Other, memory, input_element, target>();
  /// The element type with which evaluate() makes its batches; void if inputs and targets are
  /// tokens.
  using batch_element =
      std::conditional_t<takes_tokens && terms::targets.kind == value_kind::tokens, void, T>;

  friend class ext::step_trace<trainer_on>;

  parts_type of_;
};

/// Makes the trainer of a job on one rank: `auto trainer = plait::trainer<job>(rank, adamw{});`
///
/// Example (tests/reference/names_in_use_test.cpp trainer):
///     auto trainer =
///         plait::trainer<job>(rank, plait::adamw{.learning_rate = 1e-3}, {.seed = 1});
///     for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank))
///       trainer.step(batch);
template <class Job, class Rank, class Optimizer>
auto trainer(Rank& rank, Optimizer optimizer, trainer_options const& options = {}) {
  return trainer_on<Job, Rank, Optimizer>(rank, std::move(optimizer), options);
}

}  // namespace plait::execution

namespace plait {

using execution::trainer;

}  // namespace plait

namespace plait::ext {

using execution::trainer_on;

}  // namespace plait::ext
