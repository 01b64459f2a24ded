// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/plait.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "train/small_gpt.hpp"

// Small models under levels of sharding, the results of their training, and the program of a step.
namespace levels {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using tensors = std::map<std::string, std::vector<double>>;

// The table has two uses on one stage; six of its rows are padding. The positions and the first of
// the blocks are frozen.
using tied_model = objective<
    sequential<named<"wte", use_form<"vocabulary", small_gpt::table>>,
               named<"wpe", frozen<nn::positions<small_gpt::length, small_gpt::width>>>,
               named<"h0", frozen<small_gpt::block>>, named<"h", repeat<3, small_gpt::block>>,
               named<"ln_f", nn::layer_norm<small_gpt::width>>,
               named<"lm_head", use_form<"column", small_gpt::tied_head>>>,
    nn::cross_entropy<small_gpt::tied_vocabulary,
                      nn::cross_entropy_options{.padded_to = small_gpt::vocabulary}>>;
template <class Policy, class Element = double>
struct tied_job : parallel<tied_model, Policy, Element> {};
template <class Policy, class Element = double>
struct job : parallel<small_gpt::objective, Policy, Element> {};

struct outcome {
  std::vector<double> numbers;  ///< the loss and the norm of each step
  std::vector<double> terms;    ///< the terms of the loss of each step
  tensors weights, gradients;
};

struct settings {
  int microbatches = 1;
  double clip = 0;
  int steps = 6;
};

template <class Job>
outcome train(auto const& backend, settings const& with) {
  auto const text = small_gpt::text();
  outcome out;
  launch<Job>(backend, [&](auto& rank) {
    using parameter_element = typename Job::parameter_element;
    using gradient_element = typename Job::gradient_element;
    auto trainer = plait::trainer<Job>(
        rank, adamw{.learning_rate = 1e-2, .weight_decay = 0.3, .decays = decay_matrices},
        {.clip = with.clip});
    auto batches = plait::batches(text, global_batch<24>{}, rank,
                                  {.epochs = 0, .microbatches = with.microbatches});
    for (int step = 0; step < with.steps; ++step) {
      auto const report = trainer.step(batches.at(std::uint64_t(step)));
      double const loss = step == 2 ? trainer.evaluate(batches.at(0)) : 0;
      if (!rank.is_root()) continue;
      out.numbers.insert(out.numbers.end(), {report.loss, report.gradient_norm, loss});
      out.terms.insert(out.terms.end(), report.terms.begin(), report.terms.end());
    }
    auto const into = [&]<class T>(tensors& to, T) {
      return [&to](std::string const& name, parameter_info const&, std::span<T const> values) {
        to[name].assign(values.begin(), values.end());
      };
    };
    trainer.export_parameters(into(out.weights, parameter_element{}));
    trainer.export_gradients(into(out.gradients, gradient_element{}));
    workload const load{.rows = 24 * small_gpt::length / std::size_t(with.microbatches) /
                                std::size_t(rank.grid().size(batch_axes)),
                        .microbatches = with.microbatches,
                        .data_ranks = rank.grid().size(batch_axes),
                        .gradient_norm = with.clip > 0};
    auto const need = Job::plan_type::memory(rank.stage(), load);
    auto const there = trainer.allocated();
    EXPECT_EQ(there.total() - there.workspace, need.total() - need.batches);
  });
  return out;
}

template <int Level>
using at_launch_level = data_parallel<at_launch, zero<Level>, buckets<1>>;

template <int Level, class Tensor>
using on_three_axes = hybrid<pipeline<2>, at_launch_level<Level>, Tensor>;

/// The program of a step, which tests change.
struct listed_program {
  plait::ext::lean_vector<transfer> list;
  step_program program;

  /// Returns the program of one stage with two microbatches.
  template <class Plan>
  static listed_program of(mesh const& grid) {
    int const ranks = grid.size(batch_axes);
    auto list = transfers_of<Plan>(0,
                                   {.rows = 12 / std::size_t(ranks) * small_gpt::length,
                                    .microbatches = 2,
                                    .data_ranks = ranks,
                                    .gradient_norm = true},
                                   job_part::training);
    auto program =
        program_of<Plan>(grid, list, 0, job_part::training,
                         training_timetable<typename Plan::schedule_type>(1, 2).stages[0],
                         {.clips = true, .updates = true});
    return {std::move(list), std::move(program)};
  }

  /// Returns the `which`-th operation of a kind, or row of a place.
  [[nodiscard]] std::size_t find(operation_kind what, transfer_place place, int which) const {
    for (std::size_t i = 0; i < program.operations.size(); ++i) {
      auto const& now = program.operations[i];
      bool const is_one = now.what == what && (what != operation_kind::row ||
                                               list[std::size_t(now.row)].place == place);
      if (is_one && which-- == 0) return i;
    }
    ADD_FAILURE() << to_string(what) << " is not there";
    return 0;
  }
  void erase(std::size_t at) {
    program.operations.erase(program.operations.begin() + std::ptrdiff_t(at));
    program.touched.erase(program.touched.begin() + std::ptrdiff_t(at));
  }
  void move(std::size_t from, std::size_t to) {
    auto const operation = program.operations[from];
    auto const touched = program.touched[from];
    erase(from);
    program.operations.insert(program.operations.begin() + std::ptrdiff_t(to), operation);
    program.touched.insert(program.touched.begin() + std::ptrdiff_t(to), touched);
  }
};

}  // namespace levels
