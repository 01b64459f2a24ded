// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/fields.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/number_range.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/placement/batch_slicing.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/policy/policy.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/checks/consistency_check.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/options/parameter_groups.hpp"
#include "plait/train/options/rates.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait::execution {

/// Checks that the ranks were launched in the mesh `planned`, and returns `rank`.
///
/// Errors: input_error if the meshes differ.
template <class Rank>
[[gnu::cold]] Rank& in_mesh(Rank& rank, mesh const& planned) {
  if (!planned.fits(rank.grid()))
    throw input_error({"trainer: rank ", rank.world_rank(), " runs in the mesh '",
                       to_string(rank.grid()), "', but the trainer's job has the mesh '",
                       to_string(planned), "'; launch the same job that the trainer trains"});
  return rank;
}

/// A parameter of the model, identified by its full name.
struct model_parameter {
  std::string name;
  int rank = 1;
  axis_set cut{};  ///< the axes over which the parameter is cut into blocks
};

/// Returns all parameters of the model, in the order of the layers.
[[nodiscard]] [[gnu::cold]] lean_vector<model_parameter> parameters_of_model(
    lean_vector<parameter_block> const& parameters, static_view<parameter_entry> entries,
    parameter_rules const& rules);
template <class Plan>
[[nodiscard]] [[gnu::cold]] lean_vector<model_parameter> parameters_of_model(mesh const& grid) {
  return parameters_of_model(Plan::blocks_of_model(grid), Plan::entries.view(), Plan::rules);
}

/// Checks that each setting of the optimizer is in its range, and returns the optimizer.
///
/// Errors: input_error if a setting is not in its range.
template <class Optimizer>
[[gnu::cold]] Optimizer checked(Optimizer optimizer) {
  if constexpr (requires { optimizer.settings(); })
    for (auto const& setting : optimizer.settings())
      require_range(std::string("the optimizer's ") + setting.name, setting.value, setting.range);
  return optimizer;
}
/// Checks the groups of parameters.
///
/// Errors: input_error for a factor outside its range, and for a group without effect. A group has
///         no effect if it matches no parameter, or only parameters that earlier groups match.
[[gnu::cold]] void check_groups(std::vector<parameter_group> const& groups,
                                lean_vector<model_parameter> const& parameters);

/// Returns the factor of the learning rate at a step, as the options define it; see the other
/// rate_at.
inline double rate_at(trainer_options const& options, std::int64_t step) {
  return rate_at(options.rate, step, options.rate_above_1);
}

/// Checks the options of a trainer that have a meaning for replicas. `steps`: the number of steps
/// between two common updates; 0: the job has no replicas.
///
/// Errors: input_error for an outer step that is out of its range, or that has no effect; for
///         averages and for skipped steps, which replicas cannot have.
[[gnu::cold]] void check_outer_step(trainer_options const& options, int steps);

/// Checks that each of the trainer's options is in its range and fits the model, and returns the
/// options.
///
/// Errors: input_error, the same on all ranks that have the same options.
template <class Plan>
[[gnu::cold]] trainer_options const& checked(trainer_options const& options, mesh const& grid) {
  require_range("trainer_options::clip", options.clip,
                {0, number_ranges::infinite, "0 (no clipping) or above"});
  require_range("trainer_options::average", options.average,
                {0, number_ranges::below_1, "0 (no averages) or above, and below 1"});
  for_some_steps([&](std::int64_t step) { rate_at(options, step); });
  check_outer_step(options, Plan::local_steps);
  if (!options.groups.empty()) check_groups(options.groups, parameters_of_model<Plan>(grid));
  return options;
}

/// The name of a parameter, and the factors by which its learning rate and its weight decay are
/// multiplied.
struct named_factors {
  std::string name;
  update_factors factors{};
  bool is_matrix = false;  ///< true for a matrix that a matrix_optimizer selects by `matrices`
};

/// Returns the factors of all parameters of the model.
template <class Optimizer>
[[gnu::cold]] lean_vector<named_factors> factors_of_model(
    Optimizer const& optimizer, trainer_options const& options,
    lean_vector<model_parameter> const& parameters) {
  lean_vector<named_factors> out;
  for (auto const& [name, rank, cut] : parameters) {
    out.push_back({name, factors_of({name, rank}, optimizer.decays, options.groups)});
    if constexpr (ext::matrix_optimizer<Optimizer>)
      out.back().is_matrix = rank == 2 && optimizer.matrices({name, rank});
  }
  return out;
}

/// Returns a hash of the factors of all parameters, and of the list of selected matrices.
[[gnu::cold]] std::uint64_t hash_of(lean_vector<named_factors> const& all);

/// Checks that all ranks pass the same text `mine`. Only the first `compared_fields` * 8 bytes are
/// compared.
///
/// Errors: input_error with both texts, on all ranks.
[[gnu::cold]] void compare_text(number_gather const& gather, std::string const& subject,
                                std::string const& what, std::string const& mine);
/// Compares the factors of all parameters and the selected matrices, 21 parameters at a time, and
/// throws an error that names the first parameter that differs. Ranks call it if the hashes of
/// their factors differ.
[[gnu::cold]] void compare_factors(number_gather const& gather, std::string const& subject,
                                   lean_vector<named_factors> const& all);

/// The numbers of a plan that ranks compare.
struct plan_numbers {
  std::size_t parameter_count = 0;
  std::size_t precision = 0;  ///< bytes of an activation, of a parameter and of a gradient, as the
                              ///< three digits of one number
  lean_vector<model_parameter> parameters{};
  int slices = 0;
  std::string of_data{};  ///< options of the data ranks, as a text
  std::size_t bucket_bytes = 0;
  bool delays = false;  ///< true if updates are delayed
  int local_steps = 0;  ///< the steps between two common updates of replicas; 0 without replicas
  int level = 0;        ///< the level of zero<Level>; 0 if the policy does not use zero
  std::uint64_t recomputed =
      0;  ///< a hash of the steps that the units recompute; 0 if they recompute nothing
};
/// Returns a hash of the steps that the plan recomputes and of the units in which it recomputes
/// them; 0 if the plan recomputes nothing.
[[nodiscard]] [[gnu::cold]] std::uint64_t hash_of(recompute_table const& recomputed);
/// Returns the options of the data ranks that no other number tells, as a text: "shares<3, 1>,
/// compressed<bfloat16> along data, zero_of_matrices"; "" if there are none.
[[nodiscard]] [[gnu::cold]] std::string text_of_data_options(batch_slicing const& slicing,
                                                             parameter_rules const& rules);
template <class Plan>
[[gnu::cold]] plan_numbers numbers_to_compare(mesh const& grid) {
  return {Plan::parameter_count(),
          100 * Plan::element_bytes + 10 * Plan::parameter_bytes + Plan::gradient_bytes,
          parameters_of_model<Plan>(grid),
          Plan::slices,
          text_of_data_options(Plan::slicing, Plan::rules),
          Plan::bucket_bytes,
          Plan::delays,
          Plan::local_steps,
          int(Plan::cuts_arenas) + int(Plan::rules.sums_blocks()) + int(Plan::rules.keeps_blocks()),
          hash_of(Plan::recomputes)};
}

/// Checks that all ranks construct the same trainer. The ranks compare the plan, the options, and
/// the factor of the learning rate at steps 0, 1, 2, 4, ... 2^20. They compare the optimizer by its
/// settings, its numbers at steps 0 and 1, and a hash of the factors of all parameters and of the
/// selected matrices. All of these are numbers in one consistency_check. Only if the hashes differ
/// do the ranks compare each parameter, so that the error names the parameter. In a reproducible
/// plan they also compare `device_kind`, because the last bits of results depend on the device.
///
/// Errors: input_error that names the first difference, on all ranks.
template <class Optimizer>
[[gnu::cold]] void compare_trainers(number_gather const& gather, plan_numbers const& plan,
                                    std::uint64_t number, Optimizer const& optimizer,
                                    trainer_options const& options,
                                    std::string const& device_kind) {
  std::string const subject = concat({"trainer ", number});
  consistency_check mine(subject);
  mine.add("the number of trainers made so far", number);
  mine.add("the parameters of the model", plan.parameter_count);
  mine.add("precision (bytes of an activation, a parameter, a gradient, as digits)",
           plan.precision);
  mine.add(
      "the bytes of an element of the optimizer's states, or 0 if they have the type of a "
      "parameter",
      state_bytes_of<Optimizer>());
  mine.add("the slices of reproducible<Slices>", plan.slices);
  std::string const of_data = "the options of data_parallel";
  mine.add(of_data, hash().add(plan.of_data).value());
  mine.add("the least bytes of a bucket of gradients", plan.bucket_bytes);
  mine.add("the steps of delayed<Steps>, or 0", plan.delays);
  mine.add("the steps of local_steps<Steps>, or 0", plan.local_steps);
  mine.add("the level of zero<Level>, or 0", plan.level);
  mine.add("the steps that recompute<...> repeats, as a hash, or 0", plan.recomputed);
  mine.add("seed", options.seed);
  mine.add("clip", options.clip);
  mine.add("average", options.average);
  for_some_steps([&](std::int64_t step) {
    mine.add(concat({"rate at step ", step}), rate_at(options, step));
  });
  mine.add("replay", options.replay);
  mine.add("outer.rate", options.outer.rate);
  mine.add("outer.momentum", options.outer.momentum);
  mine.add("on_not_finite (0 stops, 1 skips, 2 trains on)",
           static_cast<std::uint64_t>(options.on_not_finite));
  mine.add("stop (1 if it is given)", options.stop != nullptr);
  if constexpr (requires { optimizer.settings(); })
    for (auto const& setting : optimizer.settings())
      mine.add(std::string("the optimizer's ") + setting.name, setting.value);
  for (std::int64_t step : {0, 1}) {
    int field = 0;
    for_each_field(optimizer.numbers_of(step, rate_at(options, step)), [&](double value) {
      mine.add(concat({"number ", field++, " of the optimizer at step ", step}), value);
    });
  }
  auto const factors = factors_of_model(optimizer, options, plan.parameters);
  std::string const last = "the factors of the parameters";
  mine.add(last, hash_of(factors));
  auto const all = gather.of_all(mine.mine());
  auto const first = mine.first_difference(all);
  if (first == of_data) compare_text(gather, subject, of_data, plan.of_data);
  if (first == last) compare_factors(gather, subject, factors);
  mine.require_equal(gather, all);
  if (plan.slices > 0)
    compare_text(gather, subject,
                 "what decides on the last bits of results, which reproducible<Slices> needs to be "
                 "the same",
                 device_kind);
}

/// Returns a hash of this rank's samples in a batch.
template <class Memory>
[[gnu::cold]] std::uint64_t hash_of(device_batch<Memory> const& batch) {
  hash out;
  auto const add = [&](void const* data, std::size_t bytes) {
    if (data != nullptr) out.add({static_cast<std::byte const*>(data), bytes});
  };
  auto const pieces = static_cast<std::size_t>(batch.microbatches);
  add(batch.host_inputs, pieces * batch.input_stride_bytes);
  add(batch.host_targets, pieces * batch.target_stride_bytes);
  add(batch.host_weights, pieces * batch.rows() * sizeof(double));
  return out.value();
}

/// Checks that ranks with the same coordinates on the batch axes, such as the two tensor ranks of a
/// data rank, have the same samples. `hashes`: the hash of each rank's samples.
///
/// Errors: input_error that names two ranks and their hashes, on all ranks. If only ranks that join
///         an elastic job differ, refuse_joining_ranks throws instead.
[[gnu::cold]] void require_same_samples(number_gather const& gather, std::string const& subject,
                                        std::uint64_t step,
                                        lean_vector<std::uint64_t> const& hashes);

/// Checks that all ranks use the same batches: the same options, the same data set, and equal
/// samples in the first batch that they use. In an evaluation all ranks must also have the same
/// measures; `measures`: the names of this rank's measures.
///
/// Errors: input_error that names the first difference, on all ranks.
template <class Memory>
[[gnu::cold]] void compare_batches(number_gather const& gather, device_batch<Memory> const& batch,
                                   std::string const& measures) {
  auto const& of = *batch.description;
  std::string const subject = concat({"batches ", of.number}), last = "the measures";
  std::string const text = "what the data set says that it is";
  consistency_check mine(subject);
  mine.add("the number of batches made so far", of.number);
  mine.add("the samples of a global batch", of.samples);
  mine.add("the samples of the data set", of.data_set);
  // Ranks divide the slices among themselves, so the number of microbatches may differ between
  // ranks.
  mine.add(batch.slices > 0 ? "slices" : "microbatches",
           batch.slices > 0 ? batch.slices : batch.microbatches);
  mine.add("the length of a sequence", batch.sequence);
  mine.add("seed", of.seed);
  mine.add("how (1 if samples are shuffled)", of.is_shuffled);
  mine.add("last (1 if the last batch is kept)", of.keeps_last);
  mine.add("for_evaluation", of.for_evaluation);
  mine.add(text, hash().add(of.text).value());
  mine.add("the fingerprint of the data set, of which each data rank takes its share", of.content);
  mine.add("the step whose batch is used first", batch.step);
  mine.add(last, hash().add(measures).value());
  auto numbers = mine.mine();
  numbers.resize(compared_fields);
  numbers.back() = hash_of(batch);  // the last number, which may differ between data ranks
  auto const all = gather.of_all(numbers);
  auto const first = mine.first_difference(all);
  if (first == last) compare_text(gather, subject, last, measures);
  if (first == text) compare_text(gather, subject, text, of.text);
  mine.require_equal(gather, all);
  lean_vector<std::uint64_t> hashes;
  for (std::size_t on = 0; on < all.size(); ++on) hashes.push_back(all[on][compared_fields - 1]);
  require_same_samples(gather, subject, batch.step, hashes);
}

/// Remembers the sources of batches that the ranks have compared, so that they compare each source
/// once.
class compared_batches {
 public:
  /// Returns true at the first call with a batch of a source, and false at later calls.
  template <class Memory>
  [[nodiscard]] bool is_new(device_batch<Memory> const& batch) {
    if (batch.description == nullptr || batch.description->number == last_) return false;
    last_ = batch.description->number;
    if (std::find(all_.begin(), all_.end(), last_) != all_.end()) return false;
    all_.push_back(last_);
    return true;
  }

 private:
  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> all_{};
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/checks/set_up_checks.ipp"
#endif
