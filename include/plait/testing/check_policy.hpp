// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/number_range.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/byte_text.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/dropout.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/product.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/launch.hpp"
#include "plait/testing/report.hpp"
#include "plait/train/trainer.hpp"

namespace plait::testing {

/// The settings with which `check_policy` runs; the defaults suit policies of up to 4 ranks on an
/// axis.
struct policy_options {
  int data_ranks = 2;    ///< size of the axis whose size is known only at launch
  int microbatches = 0;  ///< 0: as many microbatches as stages
  double clip = 0.1;     ///< limit of the gradient norm; above 0, so that norms are compared
  /// The largest allowed difference of losses, relative to the largest loss, and of parameters,
  /// relative to the largest parameter.
  double tolerance = 1e-10;
};

namespace detail {

inline constexpr std::size_t checked_width = 24, checked_length = 12;
// The number of rows of the token table. There are 256 tokens; the other rows are padding.
inline constexpr std::size_t checked_vocabulary = 264;
inline constexpr int checked_steps = 3;

/// A model that takes features. It has a gate, which multiplies two branches, and a loss over
/// classes.
struct checked_features {
  static constexpr auto width = checked_width;
  using gate = sequential<fan_out<nn::linear<width, 2 * width>,
                                  sequential<nn::linear<width, 2 * width>, nn::gelu<2 * width>>>,
                          nn::product<2 * width>, nn::linear<2 * width, width>>;
  using model =
      sequential<named<"in", nn::linear<width, width>>, nn::relu<width>, named<"gate", gate>,
                 named<"norm", nn::layer_norm<width>>, named<"out", nn::linear<width, width>>>;
  using objective = plait::objective<model, nn::cross_entropy<width>>;
  static constexpr char const* name = "a model of features";
  static auto data(std::size_t samples) {
    return in_memory<double>::random_classes(samples, width, width);
  }
};

/// A model that takes tokens. It has a padded token table, attention, dropout and repeated copies
/// of a block.
struct checked_tokens {
  static constexpr auto width = checked_width;
  static constexpr auto length = checked_length;
  using block =
      sequential<residual<sequential<named<"ln_1", nn::layer_norm<width>>,
                                     named<"attn", nn::causal_self_attention<width, 12, length>>>>,
                 residual<sequential<named<"ln_2", nn::layer_norm<width>>,
                                     named<"up", nn::linear<width, 2 * width>>, nn::gelu<2 * width>,
                                     named<"down", nn::linear<2 * width, width>>>>>;
  using model = sequential<
      named<"wte", nn::embedding<256, width, normal(0.02), checked_vocabulary>>,
      named<"wpe", nn::positions<length, width>>, nn::dropout<width, 100>,
      named<"h", repeat<4, block>>, named<"ln_f", nn::layer_norm<width>>,
      named<"head", nn::linear<width, 256,
                               nn::linear_options{.order = nn::weight_order::output_input,
                                                  .padded_to = checked_vocabulary}>>>;
  using objective = plait::objective<
      model, nn::cross_entropy<256, nn::cross_entropy_options{.padded_to = checked_vocabulary}>>;
  static constexpr char const* name = "a model of tokens";
  static auto data(std::size_t samples) {
    std::string text;
    for (std::size_t i = 0; i < samples * length + 1; ++i)
      text.push_back(static_cast<char>('a' + i * i % 23));
    return byte_text::from_text(text, length);
  }
};

template <class Model, class Policy>
struct checked_job : parallel<typename Model::objective, Policy, double> {};

/// The results of a run, on the root rank.
struct policy_run {
  std::vector<double> losses;
  std::vector<std::pair<compared_tensor, std::vector<double>>> parameters;
};

/// Trains a model, and checks that each rank sent as many bytes as the plan lists.
template <class Model, class Policy>
policy_run run_policy(policy_options const& options, std::size_t samples, std::size_t missing,
                      check_report& report, std::string const& where) {
  using job = checked_job<Model, Policy>;
  using plan = typename job::plan_type;
  auto const data = Model::data(2 * samples - missing);
  policy_run out;
  std::mutex mutex;
  int const data_ranks =
      plan::grid.is_complete() ? 0 : options.data_ranks * plan::grid.known_batch_ranks();
  launch<job>(threads{.data_ranks = data_ranks, .in_each_process = true}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, adamw{.learning_rate = 0.01}, {.clip = options.clip});
    int steps = 0;
    constexpr int uncounted = plan::delays ? 1 : 0;  // with delays, the first step reduces nothing
    workload load;
    for (auto const& batch : batches(data, global_batch<>{samples}, rank,
                                     {.last = last_batch::keep,
                                      .epochs = checked_steps,
                                      .microbatches = options.microbatches})) {
      if (steps == checked_steps) break;
      // The evaluation ends the communication of the start, which must not be counted.
      if (steps == 0) trainer.evaluate(batch);
      if (steps == uncounted)
        for (auto const over : rank.groups().sets()) rank.group(over).reset_counted();
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) out.losses.push_back(loss);
      load = {.rows = batch.rows(),
              .microbatches = batch.microbatches,
              .block = plan::block_at(rank),
              .data_ranks = plan::grid.ranks_at_launch(rank.grid()),
              .gradient_norm = true};
      ++steps;
    }
    {
      std::scoped_lock const lock{mutex};
      for (auto const over : rank.groups().sets()) {
        auto const planned =
            (steps - uncounted) * plan::bytes_sent(over, rank.stage(), load).total();
        auto const sent = static_cast<std::int64_t>(rank.group(over).counted().total_bytes());
        if (planned != sent)
          report.failures.push_back(
              ext::concat({where, ": rank ", rank.world_rank(), " sent ", sent, " bytes over {",
                           to_string(over), "}, but the plan lists ", planned}));
      }
    }
    trainer.export_parameters(
        [&](std::string const& name, parameter_info const& info, std::span<double const> values) {
          out.parameters.push_back(
              {{name, info.columns, values.size()}, {values.begin(), values.end()}});
        });
  });
  return out;
}

template <class Model, class Policy>
void check_policy_on(check_report& report, policy_options const& options) {
  using plan = typename checked_job<Model, Policy>::plan_type;
  mesh const grid =
      plan::grid.with_ranks_at_launch(options.data_ranks * plan::grid.known_batch_ranks());
  std::string const where = ext::concat({Model::name, " on ", grid.world_size(), " ranks"});
  report.checked.push_back(where);
  // Chooses a batch size that can be divided evenly among the batch ranks and their microbatches.
  auto const parts = static_cast<std::size_t>(plan::slicing.count(
      grid.size(batch_axes), options.microbatches > 0 ? options.microbatches : plan::stages));
  std::size_t const samples = (23 / parts + 1) * parts;
  // In the last batch of an epoch one microbatch has no sample, and another has one sample less
  // than the others.
  std::size_t const missing = parts > 1 ? samples / parts + 1 : 1;
  check_report alone;
  using reference = std::conditional_t<plan::delays, data_parallel<1, delayed<1>>, serial>;
  auto const expected = run_policy<Model, reference>({.microbatches = 1, .clip = options.clip},
                                                     samples, missing, alone, where);
  try {
    auto const got = run_policy<Model, Policy>(options, samples, missing, report, where);
    compare(report, where, {"loss of step ", expected.losses.size(), expected.losses.size()},
            expected.losses, got.losses, options.tolerance * largest(expected.losses),
            "must be the same as on one rank");
    for (std::size_t i = 0; i < expected.parameters.size() && i < got.parameters.size(); ++i) {
      auto const& [what, values] = expected.parameters[i];
      compare(report, where, what, values, got.parameters[i].second,
              options.tolerance * largest(values),
              "must be the same as on one rank after training");
    }
    if (expected.parameters.size() != got.parameters.size())
      report.failures.push_back(
          ext::concat({where, ": ", got.parameters.size(),
                       " parameters were exported, but on one rank ", expected.parameters.size()}));
  } catch (std::exception const& failure) {
    report.failures.push_back(ext::concat({where, ": ", failure.what()}));
  }
}

}  // namespace detail

/// Trains two small models under a policy, on threads and in double, and compares with training on
/// one rank, with the same delay of updates: the losses of three steps with clipping, and all
/// parameters after these steps. It also compares the bytes that each rank sent over each group
/// with the plan. The batch of the second step is not full: the last microbatch of the last rank
/// has no sample, and another microbatch has one sample less than the others.
///
/// `Policy` may be a policy or a hybrid that contains the policy. Widths, heads and positions of
/// the models are multiples of 12; the models have 6 and 9 layers for pipelines. The first model
/// has no positions, so it is not run if forms cut positions. The report's `checked` lists the
/// runs.
/// Cost: seconds to compile, milliseconds to run.
template <class Policy>
check_report check_policy(policy_options const& options = {}) {
  static_assert(ext::local_steps_of<Policy> == 0,
                "check_policy<Policy>: the policy has local_steps, whose result differs from "
                "training on one rank; check the policy without local_steps");
  static_assert(!ext::parameter_rules_of<Policy>.rounds(),
                "check_policy<Policy>: the policy rounds the gradients that ranks send, so its "
                "result differs from training on one rank; check the policy without compressed or "
                ".sent");
  require_range("policy_options::data_ranks", options.data_ranks, number_ranges::at_least_1);
  require_range("policy_options::clip", options.clip, number_ranges::finite_above_0);
  require_range("policy_options::tolerance", options.tolerance, number_ranges::finite_from_0);
  check_report report;
  constexpr bool is_exact =
      ext::local_steps_of<Policy> == 0 && !ext::parameter_rules_of<Policy>.rounds();
  if constexpr (is_exact &&
                !planning::form_cuts_of<policy_along<Policy, mesh_of<Policy>.model_axis()>>()
                     .sequence)
    detail::check_policy_on<detail::checked_features, Policy>(report, options);
  if constexpr (is_exact) detail::check_policy_on<detail::checked_tokens, Policy>(report, options);
  return report;
}

}  // namespace plait::testing
