// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "plait/core/static_vector.hpp"
#include "plait/layer/layer.hpp"
#include "plait/train/options/parameter_groups.hpp"
#include "plait/train/options/stop_on_signals.hpp"

namespace plait::ext {

/// The outer step of a common update, see `local_steps`: SGD with Nesterov momentum, as in PyTorch
/// without dampening. With d the sum of the replicas' weighted differences, the outer momentum b
/// becomes momentum * b + d, and the common parameters decrease by rate * (d + momentum * b).
struct outer_step {
  double rate = 1;      ///< the outer learning rate; DiLoCo uses 0.7
  double momentum = 0;  ///< the factor of the outer momentum; DiLoCo uses 0.9
  friend bool operator==(outer_step const&, outer_step const&) = default;
};

}  // namespace plait::ext

namespace plait {

/// The options of a trainer, except its optimizer.
struct trainer_options {
  /// The ways to deal with a step whose loss is not finite, or whose gradient norm is not finite if
  /// the step computes it. All ranks decide in the same way, because both numbers are sums over all
  /// ranks.
  enum class not_finite : int {
    stop,     ///< the job ends with not_finite_error, and the update is left out
    skip,     ///< the update is left out and counted as skipped; training continues with the next
              ///< batch
    train_on  ///< the update uses the gradients of this step, unless `clip` is set and their norm
              ///< is not finite
  };

  std::uint64_t seed = 0;
  /// The greatest norm of the gradients. Gradients with a greater norm are scaled down to this
  /// norm. 0: no clipping.
  double clip = 0;
  /// A function that returns the factor by which the learning rate is multiplied at a step, counted
  /// from 0: one of `plait::rates`, or your own function. If it is empty, the factor is 1. The
  /// factor must depend only on the step and be equal on all ranks, which compare it at steps 0, 1,
  /// 2, 4, ... 2^20.
  std::function<double(std::int64_t)> rate{};
  /// If true, factors above 1 are allowed. Otherwise a factor above 1 is an error, because a
  /// program that returns such a factor has usually mistaken the factor for the learning rate
  /// itself.
  bool rate_above_1 = false;
  /// Groups of parameters that have learning rates or weight decay of their own. Patterns of names
  /// select the parameters of a group. The first group that matches a parameter sets the factors of
  /// the parameter; parameters that no group matches have factors of 1. A group that matches no
  /// parameter of the model, or only parameters of earlier groups, is an error.
  std::vector<parameter_group> groups{};
  /// Keeps exponential moving averages of the weights, for `trainer_on::with_ema`: after each
  /// update average = `average` * average + (1 - `average`) * weight. If it is 0, no averages are
  /// kept; 0.999 is a usual value.
  double average = 0;
  /// If true, a device that can record work (CUDA graphs) records the first step and replays the
  /// recording in later steps.
  bool replay = false;
  /// The way to deal with a step that is not finite. With `skip`, each step computes the norm of
  /// the gradients, in the same way as with `clip`; to include this in an estimate of a plan, set
  /// `gradient_norm` in the workload. The host does not wait longer because of this check.
  not_finite on_not_finite = not_finite::stop;
  /// The guard that ends the job after the step in which a signal arrives at one of its processes,
  /// see `trainer_on::on_stop`; null: signals have their usual effect. The guard outlives the
  /// trainer.
  stop_on_signals const* stop = nullptr;
  /// The outer step of the common updates of a job with local_steps<H>. With the defaults, the
  /// common parameters become the weighted average of the replicas' parameters. In other jobs,
  /// leave the defaults; any other value is an error.
  ext::outer_step outer{};
};

/// The report of one step, the same on every rank, except for `waited`. With local_steps<H>, it is
/// the report of a replica, the same on every rank of this replica only: its loss is the loss of
/// the samples of the replica.
///
/// Example (tests/reference/names_in_use_test.cpp step_report):
///     plait::step_report const report = trainer.step(batches.at(0));
///     if (rank.is_root())
///       std::printf("step %ld  loss %.4f\n", long(report.step), report.loss);
struct step_report {
  std::int64_t step = 0;  ///< number of the step, counted from 0
  double loss = 0;        ///< the loss of the global batch, before the update
  double labels =
      0;  ///< number of targets that the first loss does not ignore, or the sum of their weights
  double learning_rate =
      0;  ///< the learning rate of this step, already multiplied by the factor of `rate`
  /// The norm of the gradients that this step has applied, before clipping; 0 if the trainer
  /// neither clips nor skips, or if gradient_step is -1.
  double gradient_norm = 0;

  /// The weighted terms whose sum is the loss: one number for each loss, and for each layer within
  /// the model that adds to the loss, in the order of the model. Their names are
  /// `plan::loss_term_names()`.
  ext::static_vector<double, ext::most_loss_terms> terms{};
  double waited = 0;  ///< seconds in which this rank waited for the samples of the batch

  /// The number of steps of this run, up to this one, whose update was left out because the step
  /// was not finite.
  std::int64_t skipped = 0;

  /// The number of the step whose gradients this step has applied: `step` or, under delayed<1>, the
  /// number of the step before; -1 if no gradients were pending.
  std::int64_t gradient_step = 0;

  /// The number of the replica whose report this is, see local_steps; 0 in other jobs.
  int replica = 0;
  /// The loss of the samples of all replicas since the last common update, in the report of a step
  /// that a common update follows, see local_steps; empty in other reports. It is computed from the
  /// losses of the steps, before their updates.
  std::optional<double> common_loss{};
};

}  // namespace plait

namespace plait::execution {

/// Returns true if a step computes the norm of the gradients.
[[nodiscard]] inline bool needs_norm(trainer_options const& of) {
  return of.clip > 0 || of.on_not_finite == trainer_options::not_finite::skip;
}

}  // namespace plait::execution
