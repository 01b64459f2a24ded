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

/// The best weights of a run: a checkpoint of their own.
struct best_checkpoint {
  std::int64_t step = 0;         ///< steps that were done
  double value = 0;              ///< of the measure
  std::string measure{};         ///< "greater accuracy", "lower mean_loss"
  std::filesystem::path path{};  ///< best-00000300, in the folder of checkpoints
};

namespace detail {

// Settings of the checkpoint of the best weights alone, beside those of all.
inline constexpr char const* best_setting = "best";
inline constexpr char const* best_value_setting = "best_value";

[[nodiscard]] std::string best_value_text(double value);

/// The value of the best weights' measure that the program gives, as all ranks have said it.
///
/// Errors: input_error, the same on all ranks.
[[gnu::cold]] void check_best_value(best_measure const& measure,
                                    std::vector<std::vector<std::uint64_t>> const& all);

}  // namespace detail

/// The best weights in a folder of checkpoints, as `checkpoint_options::best` keeps them; none if
/// there are none that are complete.
///
/// Errors:  input_error if the folder or a manifest cannot be read.
/// Threads: any rank may look while others write.
[[nodiscard]] std::optional<best_checkpoint> find_best(std::filesystem::path const& folder,
                                                       detail::disk& on = detail::the_disk());

namespace detail {

/// The same for a run that keeps the best by `measure`.
///
/// Errors: also input_error if those that are there are the best by another one.
[[nodiscard]] [[gnu::cold]] std::optional<best_checkpoint> find_best_by(
    best_measure const& measure, std::filesystem::path const& folder);

}  // namespace detail

/// Returns the place of the best weights of a folder of checkpoints: `plait::load_weights(trainer,
/// plait::weights_folder(plait::best_weights("run")))`.
///
/// Errors: input_error if there are none, or as find_best.
[[nodiscard]] std::filesystem::path best_weights(std::filesystem::path const& folder);

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/best_checkpoint.ipp"
#endif
