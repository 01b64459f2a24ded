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
/// Errors: an exception on one rank ends the step on all ranks.
template <class Job, class Rank, class Optimizer>
class trainer_on {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using device_type = typename Rank::device_type;
  using memory = typename device_type::memory;
  using loss_layer =
      std::tuple_element_t<std::size_t(plan::leaf_count - 1), typename plan::leaf_types>;
  using workspace_type = workspace<Job, Rank>;
  using numbers = step_numbers<Optimizer>;

 public:
  static_assert(plan::code.has_loss,
                "trainer<Job>: the job's model has no loss; write parallel<objective<Model, Loss>, "
                "Policy>");
  static_assert(optimizer<Optimizer>,
                "trainer<Job>(rank, optimizer): the second argument is not an optimizer; write "
                "plait::adamw{} or plait::sgd{}");

  [[gnu::cold]] trainer_on(Rank& rank, Optimizer optimizer, trainer_options const& options = {})
      : rank_(rank),
        optimizer_(std::move(optimizer)),
        options_(options),
        layout_(plan::parameter_layout_for(rank.place().stage)),
        owned_(parameters_of_stage<plan>(rank.place().stage)),
        parameters_(rank.device().allocate(layout_.count() * sizeof(T))),
        gradients_(rank.device().allocate((layout_.count() + layout_.tied_count) * sizeof(T))),
        states_(rank.device().allocate(layout_.count() * sizeof(T) * Optimizer::states)),
        memory_(rank.device(), update_ranges<plan>(owned_, optimizer_.decays),
                squares_ranges<plan>(owned_, rank.place()), plan::parameter_tensor_count()) {
    queue().fill(T{0}, reinterpret_cast<T*>(states_.data()), layout_.count() * Optimizer::states);
    std::vector<T> block;
    for (auto const& parameter : owned_) {
      block.resize(parameter.count);
      initial_values<T>(plan::entries[parameter.entry], parameter.number, options_.seed,
                        rank_.place().tensor, plan::tensor_ranks, block);
      rank_.device().upload(block.data(), parameter_data() + parameter.offset,
                            parameter.count * sizeof(T));
    }
  }

  [[nodiscard]] Rank& rank() { return rank_; }
  /// The number of the next step.
  [[nodiscard]] std::int64_t step_number() const { return step_; }

  /// Forward, backward, reduction, clipping and update on the next global batch.
  ///
  /// Moves: what `plan::wire` says.
  template <class Batch>
  step_report step(Batch const& batch) {
    auto& space = begin(training_, batch, workspace_type::purpose::training);
    auto const enqueue = [&] {
      enqueue_gradients(space, batch);
      if (options_.clip > 0)
        clip_gradients<Job>(rank_, gradients<Job, invariant>{gradient_data()}, memory_.squared(),
                            memory_.squares(), options_.clip, &memory_.numbers()->gradient_norm,
                            &memory_.numbers()->gradient_scale);
      update_parameters(
          rank_, optimizer_, gradients<Job, invariant>{gradient_data()},
          optimizer_arena<T>{parameter_data(), nullptr, reinterpret_cast<T*>(states_.data()),
                             layout_.count(), memory_.updated(), memory_.updated_count(),
                             &memory_.numbers()->gradient_scale},
          &memory_.numbers()->optimizer);
    };
    if (options_.replay) rank_.device().replay(recorded_step(batch), enqueue);
    else enqueue();
    step_report report = finish();
    report.learning_rate = optimizer_.learning_rate * options_.rate.factor(step_);
    ++step_;
    return report;
  }

  /// Forward, backward and reduction only: leaves the gradients of the global batch in the arena.
  template <class Batch>
  step_report gradients_of(Batch const& batch) {
    enqueue_gradients(begin(training_, batch, workspace_type::purpose::training), batch);
    return finish();
  }

  /// The loss of a global batch; nothing is dropped, no gradient is computed.
  template <class Batch>
  double evaluate(Batch const& batch) {
    auto& space = begin(evaluation_, batch, workspace_type::purpose::evaluation);
    count_labels();
    space.run(rank_, batch, &memory_.numbers()->loss);
    auto& with = rank_.group(axis::data | axis::stage);
    auto const reduce = [&] { with.all_reduce(std::span<double>(&memory_.numbers()->loss, 1)); };
    if (with.size() > 1) rank_.cross(stream::data, site(step_phase::loss), reduce);
    else reduce();
    return finish().loss;
  }

  /// The model's output for one microbatch, whole, on every rank of this data rank.
  ///
  /// Shapes: (rows, width), rows as in the batch; valid until the next call.
  template <class Batch>
  std::span<T const> predict(Batch const& batch) {
    detail::check_batch<Batch, memory>();
    auto& space = workspace_for(evaluation_, batch, workspace_type::purpose::evaluation);
    return prediction_.run(rank_, space, batch, context_for(batch, false));
  }

  /// Gathers all parameters to the root rank, one after the other in the order of the layers, and
  /// calls sink(name, parameter_info, values) there. Collective.
  template <class Sink>
  void export_parameters(Sink sink) {
    export_tensors<Job>(rank_, parameter_data(), sink);
  }
  /// The same for the gradients that the last step left.
  template <class Sink>
  void export_gradients(Sink sink) {
    export_tensors<Job>(rank_, gradient_data(), sink);
  }
  /// Calls source(name, parameter_info, whole values to fill) for each parameter of this rank's
  /// stage and keeps this rank's block.
  template <class Source>
  [[gnu::cold]] void import_parameters(Source source) {
    std::vector<T> values, block;
    for (auto const& parameter : owned_) {
      auto const& entry = plan::entries[parameter.entry];
      values.resize(entry.info.count());
      block.resize(parameter.count);
      source(parameter.name, entry.info, std::span<T>(values));
      take_block<T>(entry, rank_.place().tensor, plan::tensor_ranks, values, block);
      rank_.device().upload(block.data(), parameter_data() + parameter.offset,
                            parameter.count * sizeof(T));
    }
  }

  /// Bytes that this rank has allocated; equal to the plan's `memory` for the shape it trains.
  [[nodiscard]] memory_need allocated() const {
    return {parameters_.size(), gradients_.size(), states_.size(),
            training_ ? training_->arena_bytes() : 0, 0};
  }

 private:
  [[nodiscard]] T* parameter_data() const { return reinterpret_cast<T*>(parameters_.data()); }
  [[nodiscard]] T* gradient_data() const { return reinterpret_cast<T*>(gradients_.data()); }

  template <class Batch>
  workspace_type& workspace_for(std::optional<workspace_type>& space, Batch const& batch,
                                typename workspace_type::purpose what) {
    workload load{.rows = batch.rows(),
                  .microbatches = batch.microbatches,
                  .optimizer_states = Optimizer::states};
    if (!space || !space->fits(load)) {
      check_shape(batch);
      space.emplace(rank_, load, what, parameter_data(), gradient_data());
      recorded_ = {};
    }
    return *space;
  }

  template <class Batch>
  [[gnu::cold]] void check_shape(Batch const& batch) const {
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
    if (input.kind == value_kind::features) say("element bytes", sizeof(T), batch.element_bytes);
  }

  template <class Batch>
  [[nodiscard]] layer_context context_for(Batch const& batch, bool training) const {
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

  [[nodiscard]] auto queue() { return rank_.device().on(stream::compute); }
  [[nodiscard]] static wait_site site(step_phase phase) {
    return {wait_site::part::step, static_cast<int>(phase)};
  }

  /// What a step needs from the host: room, and the numbers that change from step to step.
  template <class Batch>
  workspace_type& begin(std::optional<workspace_type>& space, Batch const& batch,
                        typename workspace_type::purpose what) {
    detail::check_batch<Batch, memory>();
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

  /// loss_scale = 1 / labels of the global batch.
  void count_labels() {
    auto& data = rank_.group(axis::data);
    auto const count = [&] { data.all_reduce(std::span<double>(&memory_.numbers()->labels, 1)); };
    if (data.size() > 1) rank_.cross(stream::data, site(step_phase::labels), count);
    else count();
    queue().reciprocal(&memory_.numbers()->labels, &memory_.numbers()->loss_scale);
  }

  template <class Batch>
  void enqueue_gradients(workspace_type& space, Batch const& batch) {
    count_labels();
    queue().fill(T{0}, gradient_data(), layout_.count() + layout_.tied_count);
    // The loss is partial on the data axis, and on the last stage only: zeros elsewhere make it
    // partial there too.
    space.run(rank_, batch, &memory_.numbers()->loss);
    reduce_gradients<Job>(rank_, gradients<Job, partial>{gradient_data()}, layout_,
                          &memory_.numbers()->loss);
  }

  step_report finish() {
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

  /// What the device has recorded, emptied if this batch lies elsewhere than the recorded one.
  template <class Batch>
  typename device_type::graph& recorded_step(Batch const& batch) {
    recorded_batch const now{batch.inputs, batch.targets, batch.first_sample};
    if (!(now == of_recorded_)) recorded_ = {};
    of_recorded_ = now;
    return recorded_;
  }

  Rank& rank_;
  Optimizer optimizer_;
  trainer_options options_;
  parameter_layout<plan::leaf_count> layout_;
  std::vector<local_parameter> owned_;
  typename device_type::arena parameters_, gradients_, states_;
  step_memory<device_type, Optimizer> memory_;
  std::optional<workspace_type> training_, evaluation_;
  prediction<Job, Rank> prediction_;
  struct recorded_batch {
    std::byte const* inputs = nullptr;
    std::byte const* targets = nullptr;
    std::size_t first_sample = 0;
    friend bool operator==(recorded_batch const&, recorded_batch const&) = default;
  };
  typename device_type::graph recorded_{};
  recorded_batch of_recorded_{};
  std::int64_t step_ = 0;
};

/// Makes the trainer of a job on one rank: `auto trainer = plait::trainer<job>(rank, adamw{});`
template <class Job, class Rank, class Optimizer>
auto trainer(Rank& rank, Optimizer optimizer, trainer_options const& options = {}) {
  return trainer_on<Job, Rank, Optimizer>(rank, std::move(optimizer), options);
}

}  // namespace plait
