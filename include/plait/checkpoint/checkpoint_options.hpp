// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/train/measures/measures.hpp"

namespace plait {

/// The measure by which weights are compared to find the best weights. It is a measure of
/// `trainer.evaluate`, as in `{.best = plait::measures::accuracy{}}`, or a number that the program
/// computes itself, with a name and a direction, as in `{.best = {"words per error",
/// plait::better::greater}}`.
///
/// Errors: input_error for a name that is empty or has more than 100 characters.
class best_measure {
 public:
  /// Makes no measure: the best weights are then not kept.
  best_measure() = default;
  best_measure(std::string name, better which);
  template <measure Measure>
  best_measure(Measure const&) : best_measure(of<Measure>()) {  // NOLINT: implicit
    static_assert(says_what_is_better<Measure>,
                  "checkpoint_options::best: this measure does not declare which of its values are "
                  "better; declare `static std::string name()` and `static constexpr plait::better "
                  "is_better = plait::better::greater;` (or lower) in it, or write {.best = "
                  "{\"name\", plait::better::greater}}");
  }

  [[nodiscard]] bool is_given() const { return !name_.empty(); }
  [[nodiscard]] std::string const& name() const { return name_; }
  /// Returns the direction and the name, such as "greater accuracy" or "lower mean_loss"; an empty
  /// text if there is no measure.
  [[nodiscard]] std::string text() const {
    return !is_given() ? "" : (which_ == better::greater ? "greater " : "lower ") + name_;
  }
  [[nodiscard]] bool is_better(double value, double than) const {
    return which_ == better::greater ? value > than : value < than;
  }

 private:
  template <class Measure>
  static constexpr bool says_what_is_better = requires {
    { Measure::name() } -> std::convertible_to<std::string>;
    { Measure::is_better } -> std::convertible_to<better>;
  };
  template <class Measure>
  static best_measure of() {
    if constexpr (says_what_is_better<Measure>) return {Measure::name(), Measure::is_better};
    else return {};
  }

  std::string name_{};
  better which_ = better::lower;
};

/// The options of checkpoints: the folder, the steps at which they are written, and the way in
/// which they are kept and checked.
struct checkpoint_options {
  /// The folder of the checkpoints. All ranks must see this folder; it is made if it does not
  /// exist.
  std::filesystem::path folder{};
  /// The number of steps from one checkpoint to the next. If it is 0, only `save` makes
  /// checkpoints.
  std::int64_t every = 0;
  /// The number of checkpoints that are kept. Older checkpoints are removed when a newer checkpoint
  /// is complete.
  int keep = 3;
  /// The measure by which the best weights are chosen. The best weights are kept in a separate
  /// checkpoint, in addition to `keep` checkpoints. Pass the values of the measure to
  /// `checkpoints::after_evaluation`.
  best_measure best{};
  /// If true, a failed write of a checkpoint is an error; otherwise training continues.
  bool required = false;
  /// If true, `resume` compares the bytes of a checkpoint with their CRC-32 before it uses them.
  bool verify = true;
  /// Names of settings whose values may differ from the values in the checkpoint: "schedule",
  /// "learning_rate", "global_batch", ...
  std::vector<std::string> allow{};
  /// Data of the program itself, at most 16 MiB, that is stored in each checkpoint until
  /// `set_extra` replaces it. A resumed run gets this data from the checkpoint.
  std::vector<std::byte> extra{};
};

namespace detail {

/// The options that must be equal on all ranks; otherwise ranks would save at different steps or
/// treat a checkpoint differently.
inline constexpr std::array compared_options{".every", ".keep", ".required", ".verify"};

[[nodiscard]] std::vector<std::uint64_t> numbers_of(checkpoint_options const& of);

/// Writes to stderr that the checkpoint of `step` is missing, with the reason `why` and a remedy.
[[gnu::cold]] void say_missing(std::int64_t step, std::string const& why);

/// The names and values of the settings that a resumed run must repeat.
using checkpoint_settings = std::vector<std::pair<std::string, std::string>>;

/// Returns the names of settings that may differ between a checkpoint and the present run. If
/// `allow` contains "optimizer", the hyperparameters of the optimizer, which are the settings that
/// follow it in the list, may differ, too. The kind of device may differ, unless both runs promise
/// bit-identical results (`reproducible`) and the checkpoint stores a kind.
///
/// Errors: input_error for a name that is a setting of neither the checkpoint nor the present run.
[[nodiscard]] [[gnu::cold]] std::vector<std::string_view> allowed_settings(
    std::vector<std::string> const& allow, checkpoint_settings const& saved,
    checkpoint_settings const& now);

/// Returns the names in `allowed`. If the name of the optimizer differs and this is an error, the
/// result also has the names of the optimizer's settings, so that the error names the two
/// optimizers, and not each setting that only one of them has.
[[nodiscard]] [[gnu::cold]] std::vector<std::string_view> with_settings_of_optimizer(
    std::vector<std::string_view> const& allowed, checkpoint_settings const& saved,
    checkpoint_settings const& now);

}  // namespace detail

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoint_options.ipp"
#endif
