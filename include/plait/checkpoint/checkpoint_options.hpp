// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/train/measures.hpp"
#include "plait/train/saved_state.hpp"

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
  best_measure(std::string name, better which) : name_(std::move(name)), which_(which) {
    if (name_.empty() || name_.size() > 100)
      throw input_error({"checkpoint_options::best has a name of ", name_.size(),
                         " characters; it has at least 1 and at most 100"});
  }
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

[[nodiscard]] inline std::vector<std::uint64_t> numbers_of(checkpoint_options const& of) {
  return {static_cast<std::uint64_t>(of.every), static_cast<std::uint64_t>(of.keep),
          of.required ? 1u : 0u, of.verify ? 1u : 0u};
}
/// The first option that differs between two ranks of all: its name, and the values; "" if none
/// does.
[[nodiscard]] [[gnu::cold]] inline std::string option_difference(
    std::vector<std::vector<std::uint64_t>> const& all, std::size_t one, std::string const& where,
    std::size_t other, std::string const& there) {
  for (std::size_t i = 0; i < compared_options.size(); ++i)
    if (all[one][i] != all[other][i])
      return concat({"checkpoint_options: ", compared_options[i], " is ", all[one][i], where,
                     " and ", all[other][i], there});
  return "";
}

/// Says on stderr which checkpoint is missing, why, and what to do, without being asked.
[[gnu::cold]] inline void say_missing(std::int64_t step, std::string const& why) {
  std::fprintf(stderr,
               "plait: the checkpoint of step %lld is missing, and training goes on: %s; mend that "
               "before the next one, or let it end the job (checkpoint_options::required)\n",
               static_cast<long long>(step), why.c_str());
}

/// Names and values of what a run must have again.
using checkpoint_settings = std::vector<std::pair<std::string, std::string>>;

/// Returns the settings that may differ from a checkpoint. An allowed optimizer includes its
/// numbers, the settings that follow it. The kind of device may differ, unless both runs promise
/// the same last bits (`reproducible`) and the checkpoint has a kind.
///
/// Errors: input_error for a name that is no setting, of the checkpoint or now.
[[nodiscard]] [[gnu::cold]] inline std::vector<std::string_view> allowed_settings(
    std::vector<std::string> const& allow, checkpoint_settings const& saved,
    checkpoint_settings const& now) {
  std::vector<std::string_view> out;
  for (auto const& name : allow) {
    std::string known;
    for (auto const* const settings : {&saved, &now}) {
      bool is_of_optimizer = false;
      for (auto const& [setting, value] : *settings) {
        is_of_optimizer = (is_of_optimizer || setting == "optimizer") && setting != "schedule";
        if (setting == name || (name == "optimizer" && is_of_optimizer)) out.push_back(setting);
        if (known.find(concat({" ", setting, ","})) == std::string::npos)
          known += concat({" ", setting, ","});
      }
    }
    if (std::ranges::find(out, std::string_view(name)) != out.end()) continue;
    known.back() = '.';
    throw input_error({"checkpoint_options::allow has ", in_quotes(name),
                       ", which is no setting; there are", known});
  }
  auto const has = [](checkpoint_settings const& settings, std::string_view name) {
    return std::ranges::any_of(settings, [&](auto const& one) { return one.first == name; });
  };
  constexpr char const* slices = "reproducible";
  if (!has(saved, slices) || !has(now, slices) || !has(saved, kind_setting))
    out.push_back(kind_setting);
  return out;
}

}  // namespace detail

}  // namespace plait
