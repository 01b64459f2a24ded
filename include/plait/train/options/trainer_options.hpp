// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plait/core/static_vector.hpp"
#include "plait/layer/layer.hpp"
#include "plait/train/options/parameter_groups.hpp"
#include "plait/train/options/stop_on_signals.hpp"

namespace plait {

/// The options of a trainer, besides its optimizer.
struct trainer_options {
  /// The ways to deal with a step whose loss, or norm of the gradients where it is made, is not
  /// finite. All ranks decide alike, by sums over all of them.
  enum class not_finite : int {
    stop,     ///< not_finite_error ends the job, without the update
    skip,     ///< the update is left out, and counted; the batch counts as taken
    train_on  ///< the update is made with these gradients, unless `clip` meets a norm that is not
              ///< finite
  };

  std::uint64_t seed = 0;
  /// Gradients are scaled down to this norm; 0 leaves them.
  double clip = 0;
  /// The factor of the learning rate at a step, counted from 0: one of `plait::rates`, or a
  /// function of yours; none is 1. It is a function of the step alone and the same on all ranks,
  /// which are compared at steps 0, 1, 2, 4, ... 2^20.
  std::function<double(std::int64_t)> rate{};
  /// Whether that factor may be above 1. It mostly is where a learning rate was meant.
  bool rate_above_1 = false;
  /// Parameters with other rates or decay, by name. The first group that matches a parameter
  /// counts, and what none matches has factors of 1. One that matches no parameter of the model, or
  /// none that earlier ones have left, is an error.
  std::vector<parameter_group> groups{};
  /// Keeps averages of the weights over the steps, for `trainer_on::with_ema`: after each
  /// update average = `average` * average + (1 - `average`) * weight. 0 keeps none, 0.999 is usual.
  double average = 0;
  /// Lets the device record the first step and repeat it, where it can (CUDA graphs).
  bool replay = false;
  /// The way to deal with a step that is not finite. With `skip` each step makes the norm of the
  /// gradients, as with `clip`: set `gradient_norm` in a workload. The host does not wait longer.
  not_finite on_not_finite = not_finite::stop;
  /// Ends the job after the step in which a signal comes to one of its processes, see
  /// `trainer_on::on_stop`; null lets signals do what they do. It outlives the trainer.
  stop_on_signals const* stop = nullptr;
};

/// The report of one step; the same on every rank but for the time that the rank has waited.
///
/// Example (tests/reference/names_in_use_test.cpp step_report):
///     plait::step_report const report = trainer.step(batches.at(0));
///     if (rank.is_root())
///       std::printf("step %ld  loss %.4f\n", long(report.step), report.loss);
struct step_report {
  std::int64_t step = 0;     ///< counted from 0
  double loss = 0;           ///< of the global batch, before the update
  double labels = 0;         ///< targets that counted for the (first) loss; with weights, their sum
  double learning_rate = 0;  ///< as in the optimizer's numbers
  double gradient_norm = 0;  ///< before clipping; 0 if the trainer neither clips nor skips
  /// What the loss is the sum of, weighted: one number for each loss and each layer that adds to it
  /// in mid-model, in the order of the model; their names are `plan::loss_term_names()`.
  ext::static_vector<double, ext::most_loss_terms> terms{};
  double waited = 0;  ///< seconds in which this rank waited for the samples of the batch
  /// The number of steps of this run, up to this one, whose update was left out because the step
  /// was not finite.
  std::int64_t skipped = 0;
};

}  // namespace plait

namespace plait::execution {

/// Says whether a step makes the norm of the gradients.
[[nodiscard]] inline bool needs_norm(trainer_options const& of) {
  return of.clip > 0 || of.on_not_finite == trainer_options::not_finite::skip;
}

}  // namespace plait::execution
