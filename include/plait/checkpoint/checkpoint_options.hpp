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

/// The measure by which some weights are better than others: one of `trainer.evaluate`, as in
/// `{.best = plait::measures::accuracy{}}`, or a number of the program's own, as in
/// `{.best = {"words per error", plait::better::greater}}`.
///
/// Errors: input_error for a name that is empty or has more than 100 characters.
class best_measure {
 public:
  /// None: no weights are kept as the best.
  best_measure() = default;
  best_measure(std::string name, better which);
  template <measure Measure>
  best_measure(Measure const&) : best_measure(of<Measure>()) {  // NOLINT: implicit
    static_assert(says_what_is_better<Measure>,
                  "checkpoint_options::best: this measure does not say which of its values are "
                  "better; give it `static std::string name()` and `static constexpr plait::better "
                  "is_better = plait::better::greater;` (or lower), or write {.best = {\"name\", "
                  "plait::better::greater}}");
  }

  [[nodiscard]] bool is_given() const { return !name_.empty(); }
  [[nodiscard]] std::string const& name() const { return name_; }
  /// "greater accuracy", "lower mean_loss"; empty if there is none.
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

/// The options of checkpoints: where they are and when they are made.
struct checkpoint_options {
  /// All ranks see it; it is made if it is not there.
  std::filesystem::path folder{};
  /// Steps from one checkpoint to the next; 0 makes those alone that `save` asks for.
  std::int64_t every = 0;
  /// How many are kept; older ones are removed when a newer one is complete.
  int keep = 3;
  /// The measure whose best weights are kept besides, in a folder of their own, when
  /// `checkpoints::after_evaluation` is told its values.
  best_measure best{};
  /// Whether a checkpoint that cannot be written is an error; otherwise training goes on.
  bool required = false;
  /// Whether the bytes of a checkpoint are compared with their CRCs before they are used.
  bool verify = true;
  /// Settings that may be others than in the checkpoint: "schedule", "learning_rate",
  /// "global_batch", ...
  std::vector<std::string> allow{};
  /// Kept in each checkpoint, for the program, until `set_extra`; 16 MiB at most. What a run goes
  /// on from has its own.
  std::vector<std::byte> extra{};
};

namespace detail {

/// The options that are the same on all ranks, which would meet at other steps otherwise.
inline constexpr std::array compared_options{".every", ".keep", ".required", ".verify"};

[[nodiscard]] std::vector<std::uint64_t> numbers_of(checkpoint_options const& of);
/// The first option that differs between two ranks of all: its name, and the values; "" if none
/// does.
[[nodiscard]] [[gnu::cold]] std::string option_difference(
    std::vector<std::vector<std::uint64_t>> const& all, std::size_t one, std::string const& where,
    std::size_t other, std::string const& there);

/// Says on stderr which checkpoint is missing, why, and what to do, without being asked.
[[gnu::cold]] void say_missing(std::int64_t step, std::string const& why);

/// Names and values of what a run must have again.
using checkpoint_settings = std::vector<std::pair<std::string, std::string>>;

/// Returns the settings that may differ from a checkpoint. An allowed optimizer includes its
/// numbers, the settings that follow it. The kind of device may differ, unless both runs promise
/// the same last bits (`reproducible`) and the checkpoint has a kind.
///
/// Errors: input_error for a name that is no setting, of the checkpoint or now.
[[nodiscard]] [[gnu::cold]] std::vector<std::string_view> allowed_settings(
    std::vector<std::string> const& allow, checkpoint_settings const& saved,
    checkpoint_settings const& now);

}  // namespace detail

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoint_options.ipp"
#endif
