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
#include "plait/train/workspace.hpp"

namespace plait {

struct trainer_options {
  std::uint64_t seed = 0;
  /// Gradients are scaled down to this norm; 0 leaves them.
  double clip = 0;
  learning_rate_schedule rate{};
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
        ranges_(update_ranges<plan>(owned_, optimizer_.decays)),
        parameters_(layout_.count() * sizeof(T)),
        gradients_((layout_.count() + layout_.tied_count) * sizeof(T)),
        states_(layout_.count() * sizeof(T) * Optimizer::states),
        squares_(std::size_t(plan::parameter_tensor_count())) {
    std::vector<T> block;
    for (auto const& parameter : owned_) {
      block.resize(parameter.count);
      initial_values<T>(plan::entries[parameter.entry], parameter.number, options_.seed,
                        rank_.place().tensor, plan::tensor_ranks, block);
      rank_.device().copy_bytes(block.data(), parameter_data() + parameter.offset,
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
    step_report report = gradients_of(batch);
    double scale = 1;
    if (options_.clip > 0) {
      report.gradient_norm =
          gradient_norm(rank_, gradients<Job, invariant>{gradient_data()}, owned_, squares_);
      // The same guard against a division by zero as in PyTorch.
      scale = std::min(1.0, options_.clip / (report.gradient_norm + 1e-6));
    }
    double const factor = options_.rate.factor(step_);
    report.learning_rate = optimizer_.learning_rate * factor;
    update_parameters(rank_, optimizer_, gradients<Job, invariant>{gradient_data()},
                      parameter_data(), reinterpret_cast<T*>(states_.data()), layout_.count(),
                      ranges_, step_, factor, scale);
    ++step_;
    return report;
  }

  /// Forward, backward and reduction only: leaves the gradients of the global batch in the arena.
  template <class Batch>
  step_report gradients_of(Batch const& batch) {
    detail::check_batch<Batch, memory>();
    step_report report;
    report.step = step_;
    rank_.device().fill(T{0}, gradient_data(), layout_.count() + layout_.tied_count);
    report.loss = run(training_, batch, workspace_type::purpose::training, report.labels);
    reduce_gradients<Job>(rank_, gradients<Job, partial>{gradient_data()}, layout_);
    return report;
  }

  /// The loss of a global batch; nothing is dropped, no gradient is computed.
  template <class Batch>
  double evaluate(Batch const& batch) {
    detail::check_batch<Batch, memory>();
    std::int64_t labels = 0;
    return run(evaluation_, batch, workspace_type::purpose::evaluation, labels);
  }

  /// The model's output for one microbatch, whole, on every rank of this data rank.
  ///
  /// Shapes: (rows, width), rows as in the batch; valid until the next call.
  template <class Batch>
  std::span<T const> predict(Batch const& batch) {
    detail::check_batch<Batch, memory>();
    return prediction_.run(rank_,
                           workspace_for(evaluation_, batch, workspace_type::purpose::evaluation),
                           batch, context_for(batch, false, 0));
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
      rank_.device().copy_bytes(block.data(), parameter_data() + parameter.offset,
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
  [[nodiscard]] layer_context context_for(Batch const& batch, bool training, double scale) const {
    layer_context context;
    context.seed = options_.seed;
    context.step = static_cast<std::uint32_t>(step_);
    context.training = training;
    context.batch = batch.samples;
    context.sequence = batch.sequence;
    context.tensor_rank = rank_.place().tensor;
    context.tensor_ranks = plan::tensor_ranks;
    context.loss_scale = scale;
    return context;
  }

  /// Runs a batch through a workspace and returns the loss of the global batch.
  template <class Batch>
  double run(std::optional<workspace_type>& space, Batch const& batch,
             typename workspace_type::purpose what, std::int64_t& labels) {
    auto& ready = workspace_for(space, batch, what);
    labels = loss_layer::count(std::span<std::int32_t const>(
        batch.labels, batch.rows() * std::size_t(batch.microbatches)));
    rank_.group(axis::data).all_reduce(std::span<std::int64_t>(&labels, 1));
    double const scale = labels == 0 ? 0.0 : 1.0 / static_cast<double>(labels);
    ready.runner().context() = context_for(batch, what == workspace_type::purpose::training, scale);
    // Partial on the data axis, on the last stage only: zeros elsewhere make it partial there too.
    double loss = 0;
    ready.run(rank_, batch, &loss);
    rank_.device().synchronize();
    rank_.group(axis::data | axis::stage).all_reduce(std::span<double>(&loss, 1));
    return loss;
  }

  Rank& rank_;
  Optimizer optimizer_;
  trainer_options options_;
  parameter_layout<plan::leaf_count> layout_;
  std::vector<local_parameter> owned_;
  std::vector<update_range> ranges_;
  typename device_type::arena parameters_, gradients_, states_;
  std::vector<double> squares_;
  std::optional<workspace_type> training_, evaluation_;
  prediction<Job, Rank> prediction_;
  std::int64_t step_ = 0;
};

/// Makes the trainer of a job on one rank: `auto trainer = plait::trainer<job>(rank, adamw{});`
template <class Job, class Rank, class Optimizer>
auto trainer(Rank& rank, Optimizer optimizer, trainer_options const& options = {}) {
  return trainer_on<Job, Rank, Optimizer>(rank, std::move(optimizer), options);
}

}  // namespace plait
