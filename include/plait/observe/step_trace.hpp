// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plait/observe/value_trace.hpp"
#include "plait/train/trainer.hpp"

namespace plait::ext {

/// Writes a text file with a few numbers for each tensor of each step of a trainer: the outputs of
/// the layers in the forward, the gradients of their inputs in the backward, the gradients of the
/// parameters, and the updated parameters. The program `scripts/compare_traces` compares two such
/// files and names the first tensor in which two runs differ. While the object exists, it traces
/// every step of the trainer; a program without such an object does no work for it.
///
/// The file does not depend on the plan. Its numbers are the count of elements, their sum, the
/// square root of the sum of their squares, their sum with weights that depend on the index in the
/// whole tensor of the global batch, and a hash of the bits of each element and of its index. All
/// five come from additions that do not round, so runs whose values have the same bits write the
/// same file on any number of ranks. docs/tracing.md describes the file.
///
/// All ranks make a step_trace, after the trainer and before the next step; the trainer outlives
/// it. Steps are not replayed (trainer_options::replay) while they are traced.
///
/// Moves:  in each step, one small all_reduce for every two tensors.
/// Cost:   copies each traced tensor to the host, and waits for the device after each layer.
/// Errors: input_error, the same on all ranks, if the file exists, if it cannot be written, or if
///         the trainer has a trace already.
///
/// Example (examples/traced_runs.cpp trace):
///     auto trainer = plait::trainer<Job>(rank, plait::adamw{.learning_rate = 0.01});
///     plait::ext::step_trace trace(trainer, path);
///     auto batches = plait::batches<double>(data, plait::global_batch<64>{}, rank);
///     for (int step = 0; step < 3; ++step) trainer.step(batches.at(std::uint64_t(step)));
template <class Trainer>
class step_trace final : public execution::value_trace {
  static_assert(
      requires { typename Trainer::parameter_element; },
      "step_trace: write step_trace(trainer, path), with a trainer of plait::trainer");
  using plan = typename Trainer::plan_type;
  using base = execution::value_trace;
  static_assert(!plan::is_elastic,
                "step_trace: the job is elastic, so its ranks change between steps; trace a job "
                "without plait::elastic");
  static_assert(plan::local_steps == 0,
                "step_trace: the job has local_steps<H>, whose replicas have gradients of their "
                "own, but a trace has one gradient of each value; trace a job without local_steps");
  static_assert(!plan::delays,
                "step_trace: the job has delayed<1>, so the gradients that a step has applied are "
                "no longer there at its end; trace a job without delayed");

 public:
  /// `path`: the name of the file, which must be new.
  [[gnu::cold]] step_trace(Trainer& trainer, std::string const& path)
      : step_trace(trainer, path, trainer.of_.calls()) {}
  /// Says what to write if the arguments are in the wrong order.
  template <class Path>
    requires std::convertible_to<Path const&, std::string>
  step_trace(Path const& path, Trainer& trainer) : step_trace(trainer, path) {
    static_assert(!std::convertible_to<Path const&, std::string>,
                  "step_trace: write step_trace(trainer, path); the trainer is the first argument");
  }
  step_trace(step_trace const&) = delete;
  step_trace& operator=(step_trace const&) = delete;
  [[gnu::cold]] ~step_trace() { of_.step_watch = nullptr; }

  [[gnu::cold]] void end_step(std::int64_t step) override {
    for (auto const& block : of_.store.owned()) {
      add(base::parameter_pass::gradient, block, of_.store.gradients() + block.gradients_at);
      add(base::parameter_pass::parameter, block, of_.store.parameters_of(block));
    }
    base::write_step(step, of_.gather_numbers());
  }

 private:
  /// `calls`: marks the calls of this rank as calls of the trainer.
  template <class Calls>
  step_trace(Trainer& trainer, std::string const& path, Calls const&)
      : base(path, facts_of(trainer, path), trainer.of_.gather_numbers()), of_(trainer.of_) {
    of_.step_watch = &watch_;
  }
  static base::facts facts_of(Trainer& trainer, std::string const& path) {
    auto& rank = trainer.of_.rank;
    if (trainer.of_.step_watch != nullptr)
      throw input_error(
          {"step_trace '", path, "': another step_trace traces this trainer; destroy it first"});
    return {planning::ir_of<plan>,
            rank.grid(),
            rank.coordinates(),
            planning::leaf_names(plan::tree),
            plan::blocks_of_model(rank.grid()),
            rank.is_root()};
  }
  /// Adds the elements of all parameters in a block; `data`: the address of the block's elements.
  template <class Element>
  void add(base::parameter_pass which, planning::owned_block const& block, Element const* data) {
    std::vector<Element> values(block.elements.count);
    of_.rank.device().download(data, values.data(), values.size() * sizeof(Element));
    of_.rank.device().synchronize();
    for (auto const& parameter : of_.store.local())
      if (execution::overlap(block.elements, parameter).count > 0)
        base::record_parameter(which, parameter, block.elements, values.data(), sizeof(Element));
  }

  typename Trainer::parts_type& of_;
  execution::forward_watch watch_{.recorder = this};
};

}  // namespace plait::ext
