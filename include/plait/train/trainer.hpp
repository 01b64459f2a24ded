// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/caught_signal.hpp"
#include "plait/core/error.hpp"
#include "plait/data/batches.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/memory_text.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/pass_runner.hpp"
#include "plait/run/prediction.hpp"
#include "plait/run/slice_sums.hpp"
#include "plait/run/step_runner.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/averages.hpp"
#include "plait/train/batch_checks.hpp"
#include "plait/train/evaluation_sums.hpp"
#include "plait/train/gradients.hpp"
#include "plait/train/held_state.hpp"
#include "plait/train/imported_values.hpp"
#include "plait/train/loss_terms.hpp"
#include "plait/train/measures.hpp"
#include "plait/train/not_finite.hpp"
#include "plait/train/optimizer.hpp"
#include "plait/train/parameter_store.hpp"
#include "plait/train/rates.hpp"
#include "plait/train/set_up_checks.hpp"
#include "plait/train/step_memory.hpp"
#include "plait/train/step_work.hpp"
#include "plait/train/stop_on_signals.hpp"
#include "plait/train/summed_numbers.hpp"
#include "plait/train/trainer_options.hpp"
#include "plait/train/trainer_passes.hpp"
#include "plait/train/trainer_state.hpp"
#include "plait/train/work_between_steps.hpp"

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
  using gradient_element = typename Job::gradient_element;
  using device_type = typename Rank::device_type;
  using memory = typename device_type::memory;
  static constexpr bool takes_tokens = plan::tree.leaves[0].input().kind == value_kind::tokens;
  using terms = loss_terms<plan, T>;
  using target = typename terms::target;
  using passes_type = pass_runner<Job, Rank>;
  using numbers = step_numbers<Optimizer, terms::count>;
  using batch_type = device_batch<memory>;
  using work_type = step_work<Job, Rank, Optimizer>;

 public:
  static_assert(plan::code.has_loss,
                "trainer<Job>: the job's model has no loss; write parallel<objective<Model, Loss>, "
                "Policy>");
  static_assert(optimizer<Optimizer>,
                "trainer<Job>(rank, optimizer): the second argument is not an optimizer; write "
                "plait::adamw{} or plait::sgd{}, or give yours `concept_tag = "
                "plait::optimizer_tag`, `numbers` with a `learning_rate`, `states`, `decays` and "
                "`numbers_of`");

  [[gnu::cold]] trainer_on(Rank& rank, Optimizer optimizer, trainer_options const& options = {})
      : rank_(in_mesh(rank, plan::grid)),
        optimizer_(checked(std::move(optimizer))),
        options_(checked<plan>(options, rank.grid())),
        generation_(rank),
        store_(rank, held_.arenas, Optimizer::states, options.average > 0),
        averages_(rank, store_, held_.arenas, options.average),
        memory_(rank.device(), lay_out_numbers<plan>(rank.stage(), rank.grid()),
                update_tables<plan>(store_, optimizer_.decays, options_.groups),
                squares_ranges<plan>(store_.local(), store_.owned(), rank.place()),
                plan::squares_count()),
        sums_(memory_.numbers(), memory_.of_slices()),
        slices_(rank, store_.slices(), store_.gradients()),
        passes_(rank, store_,
                {.clips = options_.clip > 0,
                 .stops = can_stop(),
                 .checks_loss = options_.stop_at_nan}) {
    auto const mine = calls();
    if (!generation_.take_over(store_, options.average > 0, name())) start();
    generation_.introduce(room_to_agree());
    if (rank.world_size() > 1)
      compare_trainers(rank, room_to_agree(), numbers_to_compare<plan>(rank.grid()), number_,
                       optimizer_, options_);
    generation_.meet(
        room_to_agree(), {.optimizer_states = Optimizer::states, .averages = options.average > 0},
        name(), [this](numbers const& last) { catch_up(last); }, [this] { start(); });
  }

  [[nodiscard]] Rank& rank() { return rank_; }
  /// The number of the next step.
  [[nodiscard]] std::int64_t step_number() const { return held_.step; }
  /// What happened in the step before that, if it was done in this job, whichever ranks did it.
  [[nodiscard]] std::optional<step_report> last_report() const {
    if (held_.step == held_.origin.step) return std::nullopt;
    return report_of<terms>(held_.last, held_.step - 1);
  }

  /// Forward, backward, reduction, clipping and update on the next global batch.
  ///
  /// Moves: what `plan::wire` says.
  step_report step(batch_type const& batch) {
    averages_.require_parameters("step");
    auto const mine = calls();
    if (generation_.is_last())
      end_job(generation_.signal(), last_report().value_or(step_report{.step = held_.step - 1}));
    caught_signal::ends_waits here(options_.stop != nullptr);
    auto const work = begin(batch, trainer_program::whole_step);
    auto& program = passes_.program(trainer_program::whole_step);
    auto const enqueue = [&] { program.run(work); };
    // What decides is the same on all ranks: a recorded collective must not meet one that is not.
    if (options_.replay && batch.description != nullptr && batch.missing_samples == 0)
      rank_.device().replay(passes_.recorded(batch.description->number), enqueue);
    else enqueue();
    numbers const now = read_numbers();
    auto const report = report_of<terms>(now, held_.step);
    here.end();  // ranks wait for each other's files without it
    if (options_.stop_at_nan &&
        !(std::isfinite(report.loss) && std::isfinite(report.gradient_norm)))
      end_at_nan(batch, report);
    generation_.commit(now);
    if (now.stop >= work_.summand) work_.end_if_failed(rank_, room_to_agree(), report, on_stop_);
    if (now.stop != 0 && generation_.end(now.stop, room_to_agree()))
      end_job(generation_.is_elastic() ? 0 : agreed_signal(now.stop), report);
    return report;
  }

  /// Calls hook(report of the last step) on each rank when a signal or work_failed has ended the
  /// job, or when an elastic one cannot go on, before `stopped_by_signal` or another job_ended is
  /// thrown: to save what has been trained. All ranks give one or none.
  void on_stop(std::function<void(step_report const&)> hook) { on_stop_ = std::move(hook); }

  /// Calls work(), such as writing a log, on this rank. Where it throws, all ranks end after the
  /// next step with work_failed; several without `trainer_options::stop` at once, as otherwise.
  template <class Work>
  void between_steps(Work&& work) {
    work_.run(std::forward<Work>(work), can_stop() || rank_.world_size() == 1);
  }
  /// Behind the last step, on all ranks: ends the job if work has failed since. Moves: one sum.
  void after_steps() {
    auto const mine = calls();
    auto const last = last_report().value_or(step_report{.step = held_.step - 1});
    work_.end_if_failed(rank_, room_to_agree(), last, on_stop_);
  }

  /// Forward, backward and reduction only: leaves the gradients of the global batch in the arena.
  step_report gradients_of(batch_type const& batch) {
    auto const mine = calls();
    auto const work = begin(batch, trainer_program::only_gradients);
    passes_.program(trainer_program::only_gradients).run(work);
    return read_report();
  }

  /// The loss of a global batch; nothing is dropped, no gradient is computed.
  double evaluate(batch_type const& batch) {
    auto const mine = calls();
    auto const work = begin(batch, trainer_program::only_loss);
    passes_.program(trainer_program::only_loss).run(work);
    return read_report().loss;
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
    auto const mine = calls();
    measures_ = sums.names();
    workload load{};
    auto all = batches<batch_element>(data, size, rank_,
                                      {.how = sample_order::sequential, .last = last_batch::keep});
    for (auto const& batch : all) {
      static_assert(is_batch<std::remove_cvref_t<decltype(batch)>>);
      load = {.rows = batch.rows(),
              .microbatches = batch.microbatches,
              .data_ranks = plan::grid.ranks_at_launch(rank_.grid()),
              .optimizer_states = Optimizer::states,
              .measured_numbers = count};
      if constexpr (count == 0) evaluate(static_cast<batch_type const&>(batch));
      else measure(batch, load, sums.adder(batch));
      sums.add_loss(report_of<terms>(last_read_, held_.step).terms, last_read_.counted);
    }
    if constexpr (count > 0) prediction_.sum(rank_, load, sums.numbers());
    return sums.values(measures...);
  }

  /// The model's outputs for the samples of this data rank, or of all, on each rank.
  ///
  /// Shapes: (samples, sequence, width), the samples in the order of the batch, only those that
  ///         there are; valid until the next call.
  std::span<T const> predict(batch_type const& batch, predicted which = predicted::of_data_rank) {
    if (which == predicted::nothing) return {};
    auto const mine = calls();
    check(batch);
    averages_.refresh(store_);
    auto& passes = passes_for(batch, false);
    passes.begin(batch, context_for(batch, false), {}, 0, passes_type::all_items - 1);
    auto const program = which == predicted::of_all ? trainer_program::outputs_of_all
                                                    : trainer_program::outputs_of_rank;
    return prediction_.run(rank_, passes_.program(program), passes, batch, which);
  }

  /// A batch of `plait::batches`; what is no batch of the job on this device does not compile.
  template <class Other>
  step_report step(Other const& batch) {
    if constexpr (is_batch<Other>) return step(static_cast<batch_type const&>(batch));
    else return {};
  }
  template <class Other>
  step_report gradients_of(Other const& batch) {
    if constexpr (is_batch<Other>) return gradients_of(static_cast<batch_type const&>(batch));
    else return {};
  }
  template <class Other>
  double evaluate(Other const& batch) {
    if constexpr (is_batch<Other>) return evaluate(static_cast<batch_type const&>(batch));
    else return 0;
  }
  template <class Other>
  std::span<T const> predict(Other const& batch, predicted which = predicted::of_data_rank) {
    if constexpr (is_batch<Other>) return predict(static_cast<batch_type const&>(batch), which);
    else return {};
  }

  /// Gathers all parameters to the root rank, one after the other in the order of the layers, and
  /// calls sink(name, parameter_info, values) there, without padding. Collective.
  template <class Sink>
  void export_parameters(Sink sink) {
    auto const mine = calls();
    averages_.refresh(store_);
    store_.export_parameters(sink);
  }
  /// The same for the gradients that the last step left.
  template <class Sink>
  void export_gradients(Sink sink) {
    auto const mine = calls();
    store_.export_gradients(sink);
  }
  /// Names and shapes of all parameters of the model, without padding, in the order of the layers.
  [[nodiscard]] [[gnu::cold]] std::vector<saved_tensor> parameters() const {
    return tensors_of<plan>(rank_.grid());
  }
  /// Calls source(name, parameter_info, whole values to fill), without padding, for each parameter
  /// of this rank's stage and keeps this rank's block; a source that returns false leaves the
  /// parameter as it is. All ranks call it. In a later generation of an elastic job, which has been
  /// trained, nothing is imported.
  ///
  /// Moves:  a digest of each parameter, to all ranks.
  /// Errors: input_error, naming the first parameter with a value that is not finite, or, on all
  ///         ranks, that ranks give other values.
  template <class Source>
  void import_parameters(Source source) {
    averages_.require_parameters("import_parameters");
    if (generation_.is_held()) return;
    auto const mine = calls();
    compare_imported<plan>(rank_, room_to_agree(), name(), store_.import_from(source));
    averages_.restart(store_);
  }

  /// What this rank saves, and how it takes it back, see plait/checkpoint. The trainer outlives it.
  [[nodiscard]] [[gnu::cold]] std::unique_ptr<saved_state> state() {
    using type = trainer_state<Job, Rank, Optimizer>;
    averages_.require_parameters("state");
    return std::make_unique<type>(typename type::parts{rank_, number_, optimizer_, options_, store_,
                                                       averages_, room_to_agree(), &held_.step,
                                                       &held_.origin, generation_.is_held()});
  }

  /// Calls body() while the averages of `trainer_options::average` and the parameters are in each
  /// other's places, and returns what it returns: evaluate, predict and export_parameters inside
  /// are those of the averages. They start as the start weights, and as those that are imported.
  /// Afterwards, also after an exception, all is as before. All ranks call it.
  ///
  /// Moves: nothing by itself. Where optimizers own blocks, the first call that uses parameters
  ///        inside, and the first one afterwards, gathers what layers see as after an update.
  /// Errors: error without averages, and from step, import_parameters and with_averages inside.
  template <class Body>
  decltype(auto) with_averages(Body&& body) {
    auto const in_place = averages_.in_place(store_);
    return std::forward<Body>(body)();
  }

  /// Bytes of this rank but for batches: what the plan has, and its libraries' workspace.
  [[nodiscard]] memory_need allocated() const {
    auto need = store_.allocated();
    need.activations = passes_.bytes();
    need.outputs = prediction_.bytes();
    need.averages = averages_.bytes();
    need.numbers = memory_.bytes();
    need.workspace = detail::workspace_of(rank_.device());
    return need;
  }

 private:
  using input_element = std::conditional_t<takes_tokens, std::int32_t, T>;
  template <class Other>
  static constexpr bool is_batch = detail::check_batch<Other, memory, input_element, target>();
  /// What `batches` is told to make for the job.
  using batch_element =
      std::conditional_t<takes_tokens && terms::targets.kind == value_kind::tokens, void, T>;

  /// Evaluates a batch and gives each row of its outputs to measures.
  template <class Each>
  [[gnu::cold]] void measure(batch_type const& batch, workload const& load, Each each) {
    auto const work = begin(batch, trainer_program::measured_loss);
    using outputs = typename prediction<Job, Rank>::template measured_outputs<Each>;
    struct {
      work_type const& step;
      outputs of;
      void compute(program_operation const& now) {
        if (now.what == operation_kind::take) of.bring_together();
        else if (now.what == operation_kind::measure) of.measure(now.microbatch);
        else step.compute(now);
      }
      void run(exchange_runner<Rank> const& exchanges, program_operation const& now) {
        if (exchanges.row(now.row).what.place == exchange_place::output) of.bring_together();
        else step.run(exchanges, now);
      }
    } with{work, {prediction_, rank_, passes_for(batch, false), batch, load, each}};
    passes_.measured_program(load).run(with);
    read_numbers();
  }

  /// Where the passes add the loss.
  [[nodiscard]] loss_sum loss_of_step() const {
    return {.data = sums_.loss(), .scale = memory_.numbers()->loss_scale.data()};
  }

  /// How messages begin.
  [[nodiscard]] [[gnu::cold]] std::string name() const {
    return "trainer " + std::to_string(number_);
  }
  [[nodiscard]] [[gnu::cold]] std::string name_on_rank() const {
    return name() + ": rank " + std::to_string(rank_.world_rank());
  }

  void check(batch_type const& batch) {
    require_in_place(batch, [&] { return name(); });
    if (compared_.is_new(batch) && rank_.world_size() > 1)
      compare_batches(rank_, room_to_agree(), batch, measures_);
    check_tokens<least_vocabulary(plan::tree)>(batch, [&] { return name_on_rank(); });
  }
  /// Where the ranks compare numbers.
  [[nodiscard]] [[gnu::cold]] agreement_room room_to_agree() const {
    return {exchanges_on<plan>(rank_, {}, job_part::set_up), memory_.agreed()};
  }

  passes_type& passes_for(batch_type const& batch, bool trains) {
    workload const load{.rows = batch.rows(),
                        .microbatches = batch.microbatches,
                        .data_ranks = plan::grid.ranks_at_launch(rank_.grid()),
                        .optimizer_states = Optimizer::states,
                        .averages = options_.average > 0,
                        .ranked_sums = rank_.sums_in_room()};
    return passes_.get(trains, batch, load, [&] { return name_on_rank(); });
  }

  [[nodiscard]] layer_context context_for(batch_type const& batch, bool training) const {
    return {.seed = options_.seed,
            .step = &memory_.numbers()->step,
            .training = training,
            .batch = batch.samples,
            .sequence = batch.sequence,
            .tensor_rank = rank_.tensor_rank(),
            .tensor_ranks = plan::tensor_ranks};
  }

  /// What a program works on.
  [[nodiscard]] typename work_type::parts parts_of_step() const {
    return {rank_, optimizer_, options_, generation_, store_, averages_, memory_, sums_, slices_};
  }

  /// What a step needs from the host: room, and the numbers that change from step to step.
  work_type begin(batch_type const& batch, trainer_program what) {
    bool const trains = what <= trainer_program::only_gradients;
    if constexpr (plan::slices > 0) require_slices(batch, slices_.mine(), plan::slices, name());
    check(batch);
    averages_.refresh(store_);
    auto& ready = passes_for(batch, trains);
    ready.begin(batch, context_for(batch, trains), loss_of_step(), sums_.loss_stride);
    numbers now;
    now.step = static_cast<std::uint32_t>(held_.step);
    now.optimizer = optimizer_.numbers_of(held_.step, rate_at(options_, held_.step));
    if (trains) held_.is_ready = false;
    if (options_.stop != nullptr) now.stop = stop_summand(options_.stop->received());
    now.stop += generation_.asks() + work_.asks();
    sums_.upload(rank_, batch, now);
    return {parts_of_step(), &ready, what == trainer_program::whole_step};
  }

  numbers const& read_numbers() {
    rank_.device().download(memory_.numbers(), &last_read_, sizeof last_read_);
    rank_.device().synchronize();  // the host reads the numbers
    return last_read_;
  }
  step_report read_report() { return report_of<terms>(read_numbers(), held_.step); }

  [[nodiscard]] auto calls() {
    generation_.require_running();
    return rank_.calls_for(number_);
  }
  [[gnu::cold]] void start() {
    store_.start(options_.seed);
    averages_.restart(store_);
  }
  /// Does the step whose reduced gradients are here and that others have done.
  [[gnu::cold]] void catch_up(numbers const& last) {
    rank_.device().upload(&last, memory_.numbers(), sizeof last);
    work_type(parts_of_step(), nullptr, true).update_with_numbers();
    rank_.device().synchronize();  // other ranks are given the state
  }
  /// Whether ranks add up who wants to stop.
  [[nodiscard]] bool can_stop() const {
    return options_.stop != nullptr || generation_.is_elastic();
  }

  [[noreturn]] [[gnu::cold]] void end_job(int signal, step_report const& last) {
    if (on_stop_) on_stop_(last);
    work_.rethrow();  // of the hook
    if (signal == 0) generation_.end_job();
    throw stopped_by_signal(signal, last.step);
  }

  /// Runs the forward of the step again, on weights that are still those before it, to find the
  /// first layer that made a number that is not finite; on all ranks, which then throw the same.
  [[noreturn]] [[gnu::cold]] void end_at_nan(batch_type const& batch, step_report const& report) {
    auto& passes = passes_for(batch, false);
    passes.begin(batch, context_for(batch, true), loss_of_step(), sums_.loss_stride);
    forward_watch watch;
    passes.runner().watch(&watch);
    passes_.program(trainer_program::only_forward).run(work_type(parts_of_step(), &passes, false));
    rank_.device().synchronize();  // the host reads what has been found
    passes.runner().watch(nullptr);  // the passes may be used again
    throw not_finite_error(not_finite_text(rank_, room_to_agree(), leaf_names(plan::tree), report,
                                           last_report(), watch));
  }

  Rank& rank_;
  std::uint64_t number_ = rank_.next_trainer();  // says to other ranks whose calls these are
  Optimizer optimizer_;
  trainer_options options_;
  trainer_generation<Job, Rank, numbers> generation_;
  held_state<Job, Rank, numbers>& held_ = generation_.held();
  parameter_store<Job, Rank> store_;
  averages<Job, Rank> averages_;
  step_memory<device_type, Optimizer, terms::count> memory_;
  summed_numbers<plan, terms, numbers> sums_;
  slice_sums<Job, Rank> slices_;
  trainer_passes<Job, Rank> passes_;
  prediction<Job, Rank> prediction_;
  compared_batches compared_{};
  std::string measures_{};             // of the last evaluation of a data set
  numbers last_read_{};    // of the last batch
  std::function<void(step_report const&)> on_stop_{};
  work_between_steps work_{};
};

/// Makes the trainer of a job on one rank: `auto trainer = plait::trainer<job>(rank, adamw{});`
template <class Job, class Rank, class Optimizer>
auto trainer(Rank& rank, Optimizer optimizer, trainer_options const& options = {}) {
  return trainer_on<Job, Rank, Optimizer>(rank, std::move(optimizer), options);
}

}  // namespace plait::execution

namespace plait {

using execution::trainer;
using execution::trainer_on;

}  // namespace plait
