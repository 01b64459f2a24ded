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

namespace plait::execution {

/// Holds the parameters of one rank's stage and trains them.
///
/// All ranks of the job make a trainer and call the same functions in the same order; with several
/// trainers, they make these in one order, too.
/// Cost:   a step allocates nothing after the first of a shape; memory is never more than the
///         plan's for the greatest shape.
/// Errors: an exception on one rank ends the step on all ranks. input_error if the ranks are in
///         another mesh than the job's, and, with both values, if they differ in the plan, the
///         options, the optimizer or the batches. collective_mismatch where calls of ranks meet
///         that are for different trainers; NCCL does not compare them. out_of_memory says what
///         the plan needs it for. not_finite_error and stopped_by_signal as the options say.
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

  static_assert(plan::code.has_loss,
                "trainer<Job>: the job's model has no loss; write parallel<objective<Model, Loss>, "
                "Policy>");
  static_assert(optimizer<Optimizer>,
                "trainer<Job>(rank, optimizer): the second argument is not an optimizer; write "
                "plait::adamw{} or plait::sgd{}, or give yours `concept_tag = "
                "plait::optimizer_tag`, `numbers` with a `learning_rate`, `states`, `decays` and "
                "`numbers_of`");

  /// A batch of `plait::batches`; what is no batch of the job on this device does not compile.
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
  /// The number of the next step.
  [[nodiscard]] std::int64_t step_number() const { return of_.held.step; }
  /// What happened in the step before that, if it was done in this job, whichever ranks did it.
  [[nodiscard]] std::optional<step_report> last_report() const { return of_.last_report(); }

  /// Forward, backward, reduction, clipping and update on the next global batch.
  ///
  /// Moves: what `plan::bytes_sent` says.
  step_report step(given_batch given) {
    batch_type const& batch = given;
    of_.averaged.require_parameters("step");
    auto const mine = of_.calls();
    of_.hooks.before_step([&](int signal) { of_.hooks.at_end(signal, of_.report_before()); });
    caught_signal::ends_waits here(of_.options.stop != nullptr);
    auto work = of_.begin(batch, trainer_program::whole_step);
    auto& program = of_.passes.program(trainer_program::whole_step);
    // What decides is the same on all ranks: a recorded collective must not meet one that is not.
    if (of_.options.replay && batch.description != nullptr && batch.missing_samples == 0)
      of_.rank.device().replay(of_.passes.recorded(batch.description->number),
                               [&] { work.run(program); });
    else work.run(program);
    numbers now = of_.read_numbers();
    if (std::isnan(now.gradient_scale)) ++now.skipped;  // optimizers have changed nothing
    auto report = report_of<terms>(now, of_.held.step);
    report.waited = batch.waited;
    here.end();  // ranks wait for each other's files without it
    if (of_.options.on_not_finite == trainer_options::not_finite::stop &&
        !(std::isfinite(report.loss) && std::isfinite(report.gradient_norm)))
      of_.end_at_nan(batch, report);
    of_.held.advance(now);
    of_.hooks.after_step();
    if (now.stop != 0)
      of_.hooks.between_steps({now.stop, report, of_.room_to_agree(),
                               [&](int signal) { of_.hooks.at_end(signal, report); }});
    return report;
  }

  /// Calls hook(report of the last step) on each rank when a signal or work_failed has ended the
  /// job, or when an elastic one cannot go on, before `stopped_by_signal` or another job_ended is
  /// thrown: to save what has been trained. All ranks give one or none.
  void on_stop(std::function<void(step_report const&)> hook) {
    of_.side_work.on_stop(std::move(hook));
  }

  /// Calls work(), such as writing a log, on this rank. Where it throws, all ranks end after the
  /// next step with work_failed; several without `trainer_options::stop` at once, as otherwise.
  template <class Work>
  void between_steps(Work&& work) {
    of_.side_work.run(std::forward<Work>(work),
                      of_.hooks.gives_votes() || of_.rank.world_size() == 1);
  }
  /// Behind the last step, on all ranks: ends the job if work has failed since. Moves: one sum.
  void after_steps() {
    auto const mine = of_.calls();
    of_.side_work.end_if_failed(of_.room_to_agree(), of_.report_before());
  }

  /// Forward, backward and reduction only: leaves the gradients of the global batch in the arena.
  step_report gradients_of(given_batch batch) {
    auto const mine = of_.calls();
    auto work = of_.begin(batch, trainer_program::only_gradients);
    work.run(of_.passes.program(trainer_program::only_gradients));
    return of_.read_report();
  }

  /// The loss of a global batch; nothing is dropped, no gradient is computed.
  double evaluate(given_batch batch) {
    auto const mine = of_.calls();
    return report_of<terms>(of_.evaluate(batch), of_.held.step).loss;
  }

  /// What `measures` say of all samples of a data set, as a tuple of their values, the same on all
  /// ranks: `auto [loss, accuracy] = trainer.evaluate(data, global_batch<64>{},
  /// measures::mean_loss{}, measures::accuracy{})`.
  ///
  /// Each sample counts once, also those of the last, partial batch. All ranks ask for the same.
  /// Moves: an evaluation's rows for each batch, the outputs within the last stage, and at the end
  ///        one sum over all ranks.
  /// Cost:  makes batches of its own; memory as the plan says with `measured_numbers`.
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
              .data_ranks = plan::grid.ranks_at_launch(of_.rank.grid()),
              .optimizer_states = Optimizer::states,
              .measured_numbers = count};
      auto const add = [&](numbers const& seen) {
        sums.add_loss(report_of<terms>(seen, of_.held.step).terms, seen.label_count);
      };
      if constexpr (count == 0) add(of_.evaluate(given_batch(batch)));
      else add(of_.measure(given_batch(batch), load, sums.adder(batch)));
    }
    if constexpr (count > 0) of_.sum_measured(load, sums.numbers());
    return sums.values(measures...);
  }

  /// The model's outputs for the samples of this data rank, or of all, on each rank.
  ///
  /// Shapes: (samples, sequence, width), the samples in the order of the batch, only those that
  ///         there are; valid until the next call.
  std::span<T const> predict(given_batch given, predicted which = predicted::of_data_rank) {
    batch_type const& batch = given;
    if (which == predicted::nothing) return {};
    auto const mine = of_.calls();
    return of_.predict(batch, which);
  }

  /// Gathers all parameters to the root rank, one after the other in the order of the layers, and
  /// calls sink(name, parameter_info, values) there, without padding. Collective.
  ///
  /// \see export_tensors
  template <class Sink>
  void export_parameters(Sink sink) {
    auto const mine = of_.calls();
    of_.averaged.gather_parameters();
    export_tensors<plan>(of_.rank, of_.store, of_.store.parameters(), false, sink);
  }
  /// The same for the gradients that the last step left.
  template <class Sink>
  void export_gradients(Sink sink) {
    auto const mine = of_.calls();
    export_tensors<plan>(of_.rank, of_.store, of_.store.gradients(), true, sink);
  }
  /// Names and shapes of all parameters of the model, without padding, in the order of the layers.
  [[nodiscard]] [[gnu::cold]] std::vector<saved_tensor> parameters() const {
    return tensors_of<plan>(of_.rank.grid());
  }
  /// Calls source(name, parameter_info, whole values to fill), without padding, for each parameter
  /// of this rank's stage and keeps this rank's block; a source that returns false leaves the
  /// parameter as it is. The optimizer's states and the average of a parameter that is imported are
  /// reset, also in a trainer that has trained: states are zeros of age 0, and averages are the
  /// values. The number of the step stays. All ranks call it. In a later generation of an elastic
  /// job, which has been trained, nothing is imported.
  ///
  /// Moves:  a digest of each parameter, to all ranks.
  /// Errors: input_error, naming the first parameter with a value that is not finite, or, on all
  ///         ranks, that ranks give other values.
  template <class Source>
  void import_parameters(Source source) {
    of_.take_parameters([&] { return of_.store.import_from(source); }, imported_values::whole);
  }

  /// What this rank saves, and how it takes it back, see plait/checkpoint. The trainer outlives it.
  [[nodiscard]] [[gnu::cold]] std::unique_ptr<saved_state> state() {
    of_.averaged.require_parameters("state");
    return std::make_unique<trainer_state<parts_type>>(of_);
  }

  /// Calls body() while the averages of `trainer_options::average` and the parameters are in each
  /// other's places, and returns what it returns: evaluate, predict and export_parameters inside
  /// are those of the averages. They start as the start weights, and as those that are imported.
  /// Afterwards, also after an exception, all is as before. All ranks call it.
  ///
  /// Moves: nothing by itself. Where optimizers own blocks, the first call that uses parameters
  ///        inside, and the first one afterwards, gathers what layers see as after an update.
  /// Errors: error without averages, and from step, import_parameters and with_ema inside.
  template <class Body>
  decltype(auto) with_ema(Body&& body) {
    auto const in_place = of_.averaged.in_place();
    return std::forward<Body>(body)();
  }

  /// Bytes that the plan says that the rank with the greatest need needs for steps on these
  /// batches.
  template <class Batches>
  [[nodiscard]] [[gnu::cold]] std::size_t planned_bytes(Batches const& all) const {
    return plan::bytes_per_rank(workload{.rows = all.rows(),
                                         .microbatches = all.microbatches(),
                                         .data_ranks = plan::grid.ranks_at_launch(of_.rank.grid()),
                                         .optimizer_states = Optimizer::states,
                                         .sample_weights = all.has_weights(),
                                         .averages = of_.options.average > 0,
                                         .gradient_norm = needs_norm(of_.options),
                                         .stops = of_.hooks.gives_votes(),
                                         .ranked_sums = of_.rank.sums_in_room()});
  }
  /// Bytes of this rank but for batches: what the plan has, and its libraries' workspace.
  [[nodiscard]] ext::memory_need allocated() const { return of_.allocated(); }

 private:
  using input_element = std::conditional_t<takes_tokens, std::int32_t, T>;
  template <class Other>
  static constexpr bool is_batch = detail::check_batch<Other, memory, input_element, target>();
  /// What `batches` is told to make for the job.
  using batch_element =
      std::conditional_t<takes_tokens && terms::targets.kind == value_kind::tokens, void, T>;

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
