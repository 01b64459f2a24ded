// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "plait/checkpoint/checkpoint_options.hpp"
#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/core/header_only.hpp"
#include "plait/plan/model/program.hpp"

namespace plait {

/// The checkpoint with the best weights of a run.
struct best_checkpoint {
  std::int64_t step = 0;  ///< the number of steps that were done before the checkpoint
  double value = 0;       ///< the value of the measure
  /// The direction in which the measure improves, and its name: "greater accuracy", for example.
  std::string measure{};
  std::filesystem::path
      path{};  ///< the folder of the checkpoint, such as best-00000300 in the folder of checkpoints
};

namespace detail {

// The names of two settings that only the checkpoint of the best weights has: the measure and its
// value.
inline constexpr char const* best_setting = "best";
inline constexpr char const* best_value_setting = "best_value";

[[nodiscard]] std::string best_value_text(double value);

/// Checks the value of the measure for weights that may become the best weights: the value must not
/// be NaN and must be equal on all ranks. The second argument contains the values, which the ranks
/// have exchanged before.
///
/// Errors: input_error, the same on all ranks.
[[gnu::cold]] void check_best_value(best_measure const& measure,
                                    std::vector<std::vector<std::uint64_t>> const& all);

}  // namespace detail

/// Finds the checkpoint with the best weights, which `checkpoint_options::best` keeps, in a folder
/// of checkpoints. Returns nullopt if no complete checkpoint of best weights exists.
///
/// Errors:  input_error if the folder or a manifest cannot be read.
/// Threads: any rank may call this function while others write.
[[nodiscard]] std::optional<best_checkpoint> find_best(std::filesystem::path const& folder,
                                                       detail::disk& on = detail::the_disk());

namespace detail {

/// Finds the best weights of a run that compares weights by `measure`.
///
/// Errors: the errors of find_best; input_error if the best weights in the folder were chosen by
///         another measure.
[[nodiscard]] [[gnu::cold]] std::optional<best_checkpoint> find_best_by(
    best_measure const& measure, std::filesystem::path const& folder);

}  // namespace detail

/// Returns the path of the best weights in a folder of checkpoints: `plait::load_weights(trainer,
/// plait::weights_folder(plait::best_weights("run")))`.
///
/// Errors: input_error if the folder has no best weights; the errors of find_best.
[[nodiscard]] std::filesystem::path best_weights(std::filesystem::path const& folder);

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/best_checkpoint.ipp"
#endif
