// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/prediction.hpp"
#include "plait/run/slice_sums.hpp"
#include "plait/run/stage_executor.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/run/transfer_runner.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/checks/batch_checks.hpp"
#include "plait/train/checks/not_finite.hpp"
#include "plait/train/checks/set_up_checks.hpp"
#include "plait/train/gradients.hpp"
#include "plait/train/hooks/averages.hpp"
#include "plait/train/hooks/buffers.hpp"
#include "plait/train/hooks/signal_votes.hpp"
#include "plait/train/hooks/step_hook.hpp"
#include "plait/train/hooks/trainer_generation.hpp"
#include "plait/train/measures/loss_terms.hpp"
#include "plait/train/measures/summed_numbers.hpp"
#include "plait/train/options/rates.hpp"
#include "plait/train/options/trainer_options.hpp"
#include "plait/train/state/imported_values.hpp"
#include "plait/train/state/parameter_store.hpp"
#include "plait/train/state/state_ages.hpp"
#include "plait/train/state/step_memory.hpp"
#include "plait/train/state/training_state.hpp"
#include "plait/train/step_work.hpp"
#include "plait/train/trainer_passes.hpp"
#include "plait/train/work_between_steps.hpp"

namespace plait::execution {

/// The parts of a trainer: parameters, optimizer, executor and hooks. trainer_on has the functions
/// that programs call; this class has the state and the work that these functions share. The
/// constructor makes the parts and does not communicate; set_up() does all communication that
/// precedes the first step. A step is then three calls: begin() counts the labels of the batch and
/// uploads the numbers of the step, work_type::run() enqueues the operations of its program, and
/// read_numbers() waits for the device and downloads the loss. Parts that training itself does not
/// need, such as averages, are hooks. The list of hooks is known at compile time.
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
  using work_type = step_work<trainer_parts>;
  using batch_type = device_batch<typename device_type::memory>;
  using elements = element_types<typename Job::element, typename Job::parameter_element,
                                 typename Job::gradient_element>;

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
        memory(on.device(), lay_out_numbers<plan>(on.stage(), on.grid()),
               squares_ranges<plan>(store.local(), store.owned(), on.coordinates()),
               plan::norm_partial_count()),
        sums(memory.numbers(), memory.of_slices()),
        slices(on, ir_of<plan>, store.layout(), store.slices(), store.gradients()),
        passes(on, store,
               {.clips = needs_norm(options),
                .checks_loss = options.on_not_finite != trainer_options::not_finite::train_on,
                .masks_loss = hooks.gives_votes()}) {}
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
    lay_out_updates();
    generation_.introduce(gather_numbers());
    if (rank.world_size() > 1)
      compare_trainers(gather_numbers(), numbers_to_compare<plan>(rank.grid()), number_, rule,
                       options, rank.device().kind());
    generation_.meet(
        gather_numbers(), {.optimizer_states = Optimizer::states, .averages = options.average > 0},
        name(), [this](numbers const& last) { catch_up(last); }, [this] { start(); });
    if constexpr (plan::is_elastic)
      lay_out_updates();  // this rank may have received its ages from another rank
  }

  /// Computes the loss of a batch.
  numbers const& evaluate(batch_type const& batch) {
    auto work = begin(batch, trainer_program::only_loss);
    work.run(passes.program(trainer_program::only_loss));
    return read_numbers();
  }
  /// Computes the loss of a batch and, on the ranks that measure, calls each(row, outputs) for each
  /// row of its outputs.
  template <class Each>
  [[gnu::cold]] numbers const& measure(batch_type const& batch, workload const& load, Each each) {
    auto work = begin(batch, trainer_program::measured_loss);
    auto made = outputs_.measured(rank, passes_for(batch, false), batch, load, each);
    auto program = passes.measured_program(load);
    for (auto const& reached : program) {
      auto const& now = reached.now;
      bool const is_row = now.row >= 0;
      if (is_row ? program.transfers().row(now.row).what.place == transfer_place::output
                 : now.what == operation_kind::take)
        made.gather_output();
      else if (now.what == operation_kind::measure) made.measure(now.microbatch);
      else if (is_row) work.transfer(program.transfers(), now);
      else if (is_pass(now.what)) passes_for(batch, false).run(now, work.frame);
      else work.compute(now);
    }
    return read_numbers();
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
    check(batch, false);
    averaged.gather_parameters();
    auto& ready = passes_for(batch, false);
    auto frame =
        ready.frame_of(batch, context_for(batch, false), {}, 0, passes_type::all_items - 1);
    auto const program = which == predicted::of_all ? trainer_program::outputs_of_all
                                                    : trainer_program::outputs_of_rank;
    return outputs_.run(rank, passes.program(program), ready, frame, which);
  }

  /// Returns the report of the last step, or nullopt; see trainer_on::last_report.
  [[nodiscard]] std::optional<step_report> last_report() const {
    if (held.step == held.origin.step) return std::nullopt;
    return report_of<terms>(held.last, held.step - 1);
  }
  /// Returns last_report(), or a report that contains only the number of the last step if
  /// last_report() is nullopt.
  [[nodiscard]] [[gnu::cold]] step_report report_before() const {
    return last_report().value_or(step_report{.step = held.step - 1});
  }

  /// Returns an object through which ranks exchange small lists of numbers, to compare them.
  [[nodiscard]] [[gnu::cold]] number_gather gather_numbers() const {
    return {rank, facts_of_plan<plan>, memory.agreed()};
  }

  PLAIT_IN_LOOPS passes_type& passes_for(batch_type const& batch, bool trains) {
    return passes.get(
        trains, batch,
        [&] {
          return workload{.rows = batch.rows(),
                          .microbatches = batch.microbatches,
                          .data_ranks = plan::grid.ranks_at_launch(rank.grid()),
                          .optimizer_states = Optimizer::states,
                          .averages = options.average > 0,
                          .ranked_sums = rank.sums_in_room()};
        },
        [&] { return name_on_rank(); });
  }

  /// Begins a program on a batch: checks the batch, makes the passes for its shape, and uploads the
  /// numbers that change from step to step.
  work_type begin(batch_type const& batch, trainer_program what) {
    bool const trains = what <= trainer_program::only_gradients;
    if constexpr (plan::slices > 0) require_slices(batch, slices.mine(), plan::slices, name());
    check(batch, trains);
    if (trains) averaged.begin_step(what == trainer_program::whole_step);
    else averaged.gather_parameters();
    auto& ready = passes_for(batch, trains);
    numbers now;
    now.skipped = held.last.skipped;
    now.step = static_cast<std::uint32_t>(held.step);
    now.optimizer = rule.numbers_of(held.ages.oldest(), rate_at(options, held.step));
    if (trains) held.is_ready = false;
    now.stop = hooks.votes();
    sums.upload(rank, batch, now);
    if (!younger_.empty()) upload_of_younger();
    return {*this, ready, batch, context_for(batch, trains), what == trainer_program::whole_step};
  }

  numbers const& read_numbers() {
    rank.device().download(memory.numbers(), &last_read_, sizeof last_read_);
    rank.device().synchronize();  // the host reads the numbers
    return last_read_;
  }
  step_report read_report() { return report_of<terms>(read_numbers(), held.step); }

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
    need.activations = passes.bytes();
    need.outputs = outputs_.bytes();
    need.averages = averaged.bytes();
    need.numbers = memory.bytes();
    need.workspace = detail::workspace_of(rank.device());
    return need;
  }
  /// Calls load(), which imports parameters on this rank and returns their hashes. The ranks then
  /// compare the hashes, and reset the optimizer's states and the averages of the imported
  /// parameters.
  template <class Load>
  [[gnu::cold]] void take_parameters(Load load, imported_values::extent extent) {
    averaged.require_parameters("import_parameters");
    if (generation_.is_held()) return;
    auto const mine = calls();
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
    if (!were_equal || !held.ages.are_equal()) lay_out_updates();
  }
  /// Ends training at a step that is not finite. The weights have not been updated, so all ranks
  /// repeat the forward of the step, to find the first layer whose output is not finite. All ranks
  /// then throw the same not_finite_error, which names this layer.
  [[noreturn]] [[gnu::cold]] void end_at_nan(batch_type const& batch, step_report const& report) {
    auto& watched = passes_for(batch, false);
    work_type work(*this, watched, batch, context_for(batch, true), false);
    forward_watch watch;
    work.frame.watch = &watch;
    work.run(passes.program(trainer_program::only_forward));
    rank.device().synchronize();  // the host reads the findings
    throw not_finite_error(
        not_finite_text(gather_numbers(), leaf_names(plan::tree), report, last_report(), watch));
  }

  /// Returns the address to which the passes add the loss, together with the scales of the terms of
  /// the loss.
  [[nodiscard]] loss_sum loss_of_step() const {
    return {.data = sums.loss(), .scale = memory.numbers()->loss_scale.data()};
  }

  // The rank, the optimizer and the options.
  Rank& rank;
  Optimizer rule;
  trainer_options options;
  // Parameters.
  training_state<Rank, numbers>& held = generation_.held();
  parameter_store<elements, Rank> store;
  lean_vector<aged_block> updated{};  ///< the blocks that the optimizer updates

  // Hooks.
  averages<elements, Rank> averaged;
  work_between_steps side_work{};
  step_hooks<decltype(averaged), buffers<Job, decltype(averaged)>, work_between_steps,
             generation_type, signal_votes>
      hooks{averaged, followed_, side_work, generation_, signals_};
  // The executor.
  step_memory<device_type, Optimizer, terms::count> memory;
  summed_numbers<plan, terms, numbers> sums;
  slice_sums<typename Job::gradient_element, Rank, (plan::slices > 0)> slices;
  trainer_passes<Job, Rank> passes;

 private:
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
            .step = &memory.numbers()->step,
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
          queue.fill(typename Job::parameter_element{0},
                     store.state_of(block) + k * store.owned_count() + at, common.count);
        averaged.copy(block, at, common.count);
      }
    set_ages([&](parameter_block const& parameter) {
      return which[std::size_t(parameter.number)] != 0 ? 0 : held.ages.of(parameter.number);
    });
  }
  /// Updates the parameters of this rank in a step that other ranks have already completed. This
  /// rank has the reduced gradients of the step in its arena, and `last` contains the numbers of
  /// the step.
  [[gnu::cold]] void catch_up(numbers const& last) {
    rank.device().upload(&last, memory.numbers(), sizeof last);
    if (!younger_.empty()) upload_of_younger();
    work_type::update(*this);
    rank.device().synchronize();  // this rank may next send the state to other ranks
  }
  /// Cuts the blocks that the optimizer updates into blocks whose states have the same age.
  [[gnu::cold]] void lay_out_updates() {
    rank.device().synchronize();  // earlier steps no longer read the tables
    updated.clear();
    younger_.clear();
    lean_vector<lean_vector<update_range>> ranges;
    for (auto const& block : store.owned())
      for (auto part : blocks_of_one_age(plan::entries.view(), store.local(), block, held.ages)) {
        if (part.younger_by > 0) {
          while (part.age < younger_.size() && younger_[part.age] != part.younger_by) ++part.age;
          if (part.age == younger_.size()) younger_.push_back(part.younger_by);
          ++part.age;
        }
        ranges.push_back(
            update_ranges<plan>(store.local(), part.block, rule.decays, options.groups));
        updated.push_back(part);
      }
    memory.lay_out_updates(rank.device(), ranges, 1 + younger_.size());
    passes.forget_recorded();
  }
  /// Uploads the optimizer's numbers for states that are younger than the oldest states.
  [[gnu::cold]] void upload_of_younger() {
    lean_vector<typename Optimizer::numbers> all;
    for (auto const by : younger_)
      all.push_back(rule.numbers_of(held.ages.oldest() - by, rate_at(options, held.step)));
    rank.device().upload(all.data(), memory.numbers_of_age(1), all.size() * sizeof all[0]);
  }

  prediction<Job, Rank> outputs_;
  lean_vector<std::int64_t> younger_{};  ///< differences between the oldest age and the other ages
  compared_batches compared_{};
  std::string measures_{};  ///< the names of the measures of the last evaluation
  numbers last_read_{};     ///< numbers that were downloaded after the last program
};

}  // namespace plait::execution
