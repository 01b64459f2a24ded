// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/finite.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/memory_text.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/synchronizer.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/exchange.hpp"
#include "plait/train/gradients.hpp"
#include "plait/train/optimizer.hpp"
#include "plait/train/parameters.hpp"
#include "plait/train/step_memory.hpp"
#include "plait/train/workspace.hpp"

namespace plait {

struct trainer_options {
  std::uint64_t seed = 0;
  /// Gradients are scaled down to this norm; 0 leaves them.
  double clip = 0;
  learning_rate_schedule rate{};
  /// Lets the device record the first step and repeat it, where it can (CUDA graphs).
  bool replay = false;
};

/// What happened in one step; the same on every rank.
struct step_report {
  std::int64_t step = 0;    ///< counted from 0
  double loss = 0;          ///< of the global batch, before the update
  std::int64_t labels = 0;  ///< rows that counted
  double learning_rate = 0;
  double gradient_norm = 0;  ///< before clipping; 0 if the trainer does not clip
};

/// Holds the parameters of one rank's stage and trains them.
///
/// All ranks of the job make a trainer and call the same functions in the same order.
/// Cost:   a step allocates nothing after the first of a shape.
/// Errors: an exception on one rank ends the step on all ranks. input_error if the ranks are in
///         another mesh than the job's. out_of_memory says what the plan needs the memory for.
template <class Job, class Rank, class Optimizer>
class trainer_on {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using parameter_element = typename Job::parameter_element;
  using gradient_element = typename Job::gradient_element;
  using device_type = typename Rank::device_type;
  using memory = typename device_type::memory;
  using loss_layer =
      std::tuple_element_t<std::size_t(plan::leaf_count - 1), typename plan::leaf_types>;
  using workspace_type = workspace<Job, Rank>;
  using numbers = step_numbers<Optimizer>;
  using batch_type = device_batch<memory>;

 public:
  static_assert(plan::code.has_loss,
                "trainer<Job>: the job's model has no loss; write parallel<objective<Model, Loss>, "
                "Policy>");
  static_assert(optimizer<Optimizer>,
                "trainer<Job>(rank, optimizer): the second argument is not an optimizer; write "
                "plait::adamw{} or plait::sgd{}");

  [[gnu::cold]] trainer_on(Rank& rank, Optimizer optimizer, trainer_options const& options = {})
      : rank_(in_mesh_of_the_plan(rank)),
        optimizer_(std::move(optimizer)),
        options_(options),
        layout_(plan::parameter_layout_for(rank.place().stage)),
        owned_(parameters_of_stage<plan>(rank.place().stage)),
        parameters_(allocate(layout_.count() * sizeof(parameter_element))),
        copies_(allocate(plan::has_copies ? layout_.count() * sizeof(T) : 0)),
        gradients_(allocate((layout_.count() + layout_.tied_count) * sizeof(gradient_element))),
        states_(allocate(layout_.count() * sizeof(parameter_element) * Optimizer::states)),
        memory_(rank.device(), update_ranges<plan>(owned_, optimizer_.decays),
                squares_ranges<plan>(owned_, rank.place()), plan::parameter_tensor_count()) {
    queue().fill(parameter_element{0}, state_data(), layout_.count() * Optimizer::states);
    std::vector<parameter_element> block;
    for (auto const& parameter : owned_) {
      block.resize(parameter.count);
      initial_values<parameter_element>(plan::entries[parameter.entry], parameter.number,
                                        options_.seed, rank_.place().tensor, plan::tensor_ranks,
                                        block);
      rank_.device().upload(block.data(), parameter_data() + parameter.offset,
                            parameter.count * sizeof(parameter_element));
    }
    copy_parameters();
  }

  [[nodiscard]] Rank& rank() { return rank_; }
  /// The number of the next step.
  [[nodiscard]] std::int64_t step_number() const { return step_; }

  /// Forward, backward, reduction, clipping and update on the next global batch.
  ///
  /// Moves: what `plan::wire` says.
  step_report step(batch_type const& batch) {
    auto& space = begin(training_, batch, workspace_type::purpose::training);
    auto const enqueue = [&] {
      open(whole_step_);
      update(enqueue_gradients(space, batch, whole_step_));
      close(whole_step_);
    };
    // What decides is the same on all ranks: a recorded collective must not meet one that is not.
    if (options_.replay && batch.source != 0)
      rank_.device().replay(recorded_step(batch.source), enqueue);
    else enqueue();
    step_report report = read_report();
    report.learning_rate = optimizer_.learning_rate * options_.rate.factor(step_);
    ++step_;
    return report;
  }

  /// Forward, backward and reduction only: leaves the gradients of the global batch in the arena.
  step_report gradients_of(batch_type const& batch) {
    auto& space = begin(training_, batch, workspace_type::purpose::training);
    open(only_gradients_);
    enqueue_gradients(space, batch, only_gradients_);
    close(only_gradients_);
    return read_report();
  }

  /// The loss of a global batch; nothing is dropped, no gradient is computed.
  double evaluate(batch_type const& batch) {
    auto& space = begin(evaluation_, batch, workspace_type::purpose::evaluation);
    open(only_loss_);
    count_labels(only_loss_);
    only_loss_.run(phase(step_phase::passes),
                   [&] { space.run(rank_, batch, &memory_.numbers()->loss); });
    only_loss_.run(phase(step_phase::reduce),
                   [&] { sum(exchange_place::loss, &memory_.numbers()->loss); });
    close(only_loss_);
    return read_report().loss;
  }

  /// The model's output for one microbatch, whole, on every rank of this data rank.
  ///
  /// Shapes: (rows, width), rows as in the batch; valid until the next call.
  std::span<T const> predict(batch_type const& batch) {
    auto& space = workspace_for(evaluation_, batch, workspace_type::purpose::evaluation);
    return prediction_.run(rank_, space, batch, context_for(batch, false));
  }

  /// Anything but a batch in the memory of this rank's device does not compile.
  template <class Other>
  step_report step(Other const&) {
    return detail::check_batch<Other, memory>(), step_report{};
  }
  template <class Other>
  step_report gradients_of(Other const&) {
    return detail::check_batch<Other, memory>(), step_report{};
  }
  template <class Other>
  double evaluate(Other const&) {
    return detail::check_batch<Other, memory>(), 0.0;
  }
  template <class Other>
  std::span<T const> predict(Other const&) {
    return detail::check_batch<Other, memory>(), std::span<T const>{};
  }

  /// Gathers all parameters to the root rank, one after the other in the order of the layers, and
  /// calls sink(name, parameter_info, values) there, without padding. Collective.
  template <class Sink>
  void export_parameters(Sink sink) {
    export_tensors<Job>(rank_, job_part::export_parameters, parameter_data(), sink);
  }
  /// The same for the gradients that the last step left.
  template <class Sink>
  void export_gradients(Sink sink) {
    export_tensors<Job>(rank_, job_part::export_gradients, gradient_data(), sink);
  }
  /// Calls source(name, parameter_info, whole values to fill), without padding, for each parameter
  /// of this rank's stage and keeps this rank's block.
  ///
  /// Errors: input_error, naming the first, if a parameter has a value that is not finite.
  template <class Source>
  [[gnu::cold]] void import_parameters(Source source) {
    std::vector<parameter_element> values, block;
    for (auto const& parameter : owned_) {
      auto const& entry = plan::entries[parameter.entry];
      values.resize(entry.info.unpadded().count());
      block.resize(parameter.count);
      source(parameter.name, entry.info.unpadded(), std::span<parameter_element>(values));
      if (auto const problem = not_finite<parameter_element>(parameter.name, values);
          !problem.empty())
        throw input_error("import_parameters: " + problem + "; nothing can be trained from there");
      take_block<parameter_element>(entry, rank_.place().tensor, plan::tensor_ranks, values, block);
      rank_.device().upload(block.data(), parameter_data() + parameter.offset,
                            parameter.count * sizeof(parameter_element));
    }
    copy_parameters();
  }

  /// Bytes of this rank's arenas; equal to the plan's `memory` for the shape it trains. The numbers
  /// of a step, a few for each parameter tensor, come on top.
  [[nodiscard]] memory_need allocated() const {
    return {parameters_.size() + copies_.size(), gradients_.size(), states_.size(),
            training_ ? training_->arena_bytes() : 0, 0};
  }

 private:
  [[gnu::cold]] static Rank& in_mesh_of_the_plan(Rank& rank) {
    if (!plan::grid.fits(rank.grid()))
      throw input_error("trainer: rank " + std::to_string(rank.world_rank()) +
                        " runs in the mesh '" + to_string(rank.grid()) +
                        "', the job to be trained has the mesh '" + to_string(plan::grid) +
                        "'; launch the job that is trained");
    return rank;
  }

  /// Memory for what does not depend on the batch.
  [[gnu::cold]] typename device_type::arena allocate(std::size_t bytes) {
    auto need = plan::memory(rank_.place().stage, {.optimizer_states = Optimizer::states});
    need.activations = need.batches = 0;
    return detail::allocate_for_plan(rank_.world_rank(), need,
                                     [&] { return rank_.device().allocate(bytes); });
  }

  [[nodiscard]] parameter_element* parameter_data() const {
    return reinterpret_cast<parameter_element*>(parameters_.data());
  }
  [[nodiscard]] gradient_element* gradient_data() const {
    return reinterpret_cast<gradient_element*>(gradients_.data());
  }
  [[nodiscard]] parameter_element* state_data() const {
    return reinterpret_cast<parameter_element*>(states_.data());
  }
  /// The parameters in the type that layers see.
  [[nodiscard]] T const* seen_parameters() const {
    return reinterpret_cast<T const*>((plan::has_copies ? copies_ : parameters_).data());
  }
  void copy_parameters() {
    if constexpr (plan::has_copies)
      queue().convert(parameter_data(), reinterpret_cast<T*>(copies_.data()), layout_.count());
  }

  workspace_type& workspace_for(std::optional<workspace_type>& space, batch_type const& batch,
                                typename workspace_type::purpose what) {
    workload load{.rows = batch.rows(),
                  .microbatches = batch.microbatches,
                  .optimizer_states = Optimizer::states};
    if (!space || !space->fits(load)) {
      check_shape(batch);
      detail::allocate_for_plan(
          rank_.world_rank(), plan::memory(rank_.place().stage, load), [&]() -> auto& {
            return space.emplace(rank_, load, what, seen_parameters(), gradient_data());
          });
      recorded_ = {};
    }
    return *space;
  }

  [[gnu::cold]] void check_shape(batch_type const& batch) const {
    auto const say = [&](std::string const& what, std::size_t expected, std::size_t given) {
      if (expected != given)
        throw size_mismatch("trainer: rank " + std::to_string(rank_.world_rank()) +
                            " got a batch of " + what + " " + std::to_string(given) +
                            ", the model takes " + std::to_string(expected));
    };
    auto const& input = plan::tree.leaves[0].input();
    if (plan::sequence_length > 1)
      say("sequences of length", plan::sequence_length, batch.sequence);
    say("inputs of width", input.width, batch.input.width);
    if (input.kind == value_kind::features && batch.element_bytes != sizeof(T))
      throw size_mismatch("trainer: rank " + std::to_string(rank_.world_rank()) +
                          " got a batch of features of " + std::to_string(batch.element_bytes) +
                          " bytes, the job computes with " + std::to_string(sizeof(T)) +
                          "; write plait::batches<typename job::element>(data, ...)");
  }

  [[nodiscard]] layer_context context_for(batch_type const& batch, bool training) const {
    layer_context context;
    context.seed = options_.seed;
    context.step = &memory_.numbers()->step;
    context.training = training;
    context.batch = batch.samples;
    context.sequence = batch.sequence;
    context.tensor_rank = rank_.place().tensor;
    context.tensor_ranks = plan::tensor_ranks;
    context.loss_scale = &memory_.numbers()->loss_scale;
    return context;
  }

  /// Sums up what the plan's list has for a place; a plan of one rank has nothing.
  template <class Number>
  void sum([[maybe_unused]] exchange_place place, [[maybe_unused]] Number* data) const {
    if constexpr (plan::grid.world_size() != 1) sums_.run_sums(place, data);
  }

  [[nodiscard]] auto queue() { return rank_.device().on(stream::compute); }
  using waits = synchronizer<device_type>;

  [[gnu::cold]] waits waits_for(bool gradients, bool updates) {
    bool const clips = updates && options_.clip > 0;
    step_shape const shape{.counts = sums_.has(exchange_place::labels),
                           .reduces_gradients = gradients && sums_.has(exchange_place::gradients),
                           .reduces_loss = sums_.has(exchange_place::loss),
                           .clips = clips,
                           .reduces_squares = clips && sums_.has(exchange_place::squares),
                           .updates = updates};
    std::vector<int> names;
    for (int i = 0; i < step_phases; ++i) names.push_back(i);
    return waits(rank_.device(), wait_site::part::step, step_operations(shape), names);
  }
  static constexpr std::size_t phase(step_phase which) { return static_cast<std::size_t>(which); }

  /// What a step needs from the host: room, and the numbers that change from step to step.
  workspace_type& begin(std::optional<workspace_type>& space, batch_type const& batch,
                        typename workspace_type::purpose what) {
    auto& ready = workspace_for(space, batch, what);
    ready.runner().context() = context_for(batch, what == workspace_type::purpose::training);
    numbers now;
    now.labels = static_cast<double>(loss_layer::count(std::span<std::int32_t const>(
        batch.labels, batch.rows() * std::size_t(batch.microbatches))));
    now.step = static_cast<std::uint32_t>(step_);
    now.optimizer = optimizer_.numbers_of(step_, options_.rate.factor(step_));
    rank_.device().upload(&now, memory_.numbers(), sizeof now);
    return ready;
  }

  /// The numbers from the host are there, and those for the host may be read: the ends of what a
  /// device can record, which waits for nothing before it and is waited for as a whole.
  void open(waits& with) {
    with.run(phase(step_phase::send), [] {});
  }
  void close(waits& with) {
    with.run(phase(step_phase::read), [] {});
  }

  /// loss_scale = 1 / labels of the global batch.
  void count_labels(waits& with) {
    auto* const now = memory_.numbers();
    with.run(phase(step_phase::count), [&] { sum(exchange_place::labels, &now->labels); });
    with.run(phase(step_phase::scale), [&] { queue().reciprocal(&now->labels, &now->loss_scale); });
  }

  gradients<Job, invariant> enqueue_gradients(workspace_type& space, batch_type const& batch,
                                              waits& with) {
    gradients<Job, partial> const mine{gradient_data()};
    count_labels(with);
    with.run(phase(step_phase::passes), [&] {
      queue().fill(gradient_element{0}, mine.data, layout_.count() + layout_.tied_count);
      space.run(rank_, batch, &memory_.numbers()->loss);
      detail::add_tied_gradients<Job>(rank_, sums_, mine, layout_);
      clear_padding(rank_, mine, owned_);
    });
    with.run(phase(step_phase::reduce), [&] {
      sum(exchange_place::gradients, mine.data);
      sum(exchange_place::loss, &memory_.numbers()->loss);
    });
    return {mine.data};
  }

  void update(gradients<Job, invariant> of) {
    auto* const now = memory_.numbers();
    auto const squares = memory_.squares();
    bool const clips = options_.clip > 0;
    whole_step_.run(phase(step_phase::square), [&] {
      if (clips) square_gradients(rank_, of, memory_.squared(), squares);
    });
    whole_step_.run(phase(step_phase::reduce_squares),
                    [&] { sum(exchange_place::squares, squares.data()); });
    whole_step_.run(phase(step_phase::update), [&] {
      if (clips)
        queue().clip(squares.data(), squares.size(), options_.clip, &now->gradient_norm,
                     &now->gradient_scale);
      update_parameters(
          rank_, optimizer_, of,
          {parameter_data(), nullptr, state_data(),
           plan::has_copies ? reinterpret_cast<T*>(copies_.data()) : nullptr, layout_.count(),
           memory_.updated(), memory_.updated_count(), &now->gradient_scale},
          &now->optimizer);
    });
  }

  step_report read_report() {
    numbers now;
    rank_.device().download(memory_.numbers(), &now, sizeof now);
    rank_.device().synchronize();
    step_report report;
    report.step = step_;
    report.loss = now.loss;
    report.labels = static_cast<std::int64_t>(now.labels);
    report.gradient_norm = now.gradient_norm;
    return report;
  }

  /// What the device has recorded, emptied if the batch is from elsewhere.
  typename device_type::graph& recorded_step(std::uint64_t source) {
    if (source != recorded_source_) recorded_ = {};
    recorded_source_ = source;
    return recorded_;
  }

  Rank& rank_;
  Optimizer optimizer_;
  trainer_options options_;
  parameter_layout<plan::leaf_count> layout_;
  std::vector<local_parameter> owned_;
  typename device_type::arena parameters_, copies_, gradients_, states_;
  step_memory<device_type, Optimizer> memory_;
  /// What a step sums up around its passes; it does not depend on the batch.
  exchange_runner<Rank> sums_{
      rank_, exchanges_of<plan>(rank_.place().stage, {.gradient_norm = options_.clip > 0},
                                job_part::training)};
  waits whole_step_{waits_for(true, true)};
  waits only_gradients_{waits_for(true, false)};
  waits only_loss_{waits_for(false, false)};
  std::optional<workspace_type> training_, evaluation_;
  prediction<Job, Rank> prediction_;
  typename device_type::graph recorded_{};
  std::uint64_t recorded_source_ = 0;
  std::int64_t step_ = 0;
};

/// Makes the trainer of a job on one rank: `auto trainer = plait::trainer<job>(rank, adamw{});`
template <class Job, class Rank, class Optimizer>
auto trainer(Rank& rank, Optimizer optimizer, trainer_options const& options = {}) {
  return trainer_on<Job, Rank, Optimizer>(rank, std::move(optimizer), options);
}

}  // namespace plait
