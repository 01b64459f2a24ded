// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/best_checkpoint.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "plait/checkpoint/checkpoint_list.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/core/quote.hpp"
#include "plait/core/read_number.hpp"
#include "plait/train/checks/require_same.hpp"

namespace plait::detail {

PLAIT_DECL std::string best_value_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

PLAIT_DECL double best_value_from(std::string_view text) {
  auto const value = number_of_text(text);
  if (!value)
    throw input_error(
        {"the value of the best weights is ", in_quotes(text), ", which is not a number"});
  return *value;
}

PLAIT_DECL void check_best_value(best_measure const& measure,
                                 std::vector<std::vector<std::uint64_t>> const& all) {
  auto const value = [&](std::size_t rank) { return std::bit_cast<double>(all[rank][0]); };
  execution::require_same(
      nullptr, all.size(), "checkpoints",
      [&](int rank, int other) -> execution::rank_difference {
        auto const one = std::size_t(rank), two = std::size_t(other);
        if (all[one] == all[two]) return {};
        return {concat({"the value of after_evaluation, ", measure.name()}),
                best_value_text(value(one)), best_value_text(value(two))};
      },
      "; pass the result of trainer.evaluate, which is equal on all ranks");
  if (std::isnan(value(0)))
    throw input_error({"checkpoints: after_evaluation got nan as the value of ", measure.name(),
                       ", which is neither better nor worse than another value"});
}

}  // namespace plait::detail

namespace plait {

PLAIT_DECL std::optional<best_checkpoint> find_best(std::filesystem::path const& folder,
                                                    detail::disk& on) {
  std::optional<best_checkpoint> best;
  for (auto const& found : detail::list_checkpoints(folder, true, on)) {
    if (!found.complete()) continue;
    best_checkpoint one{.step = found.step, .path = found.path};
    for (auto const& [name, value] : ext::read_manifest(found.path, on).settings)
      if (name == detail::best_setting) one.measure = value;
      else if (name == detail::best_value_setting) one.value = detail::best_value_from(value);
    // Several checkpoints of best weights exist if a job was killed before it removed the previous
    // best weights.
    bool const greater = one.measure.starts_with("greater ");
    if (!best || (greater ? one.value > best->value : one.value < best->value)) best = one;
  }
  return best;
}

}  // namespace plait

namespace plait::detail {

PLAIT_DECL std::optional<best_checkpoint> find_best_by(best_measure const& measure,
                                                       std::filesystem::path const& folder) {
  auto found = find_best(folder);
  if (found && found->measure != measure.text())
    throw input_error({"checkpoint ", path_in_quotes(found->path),
                       " has the best weights according to ", in_quotes(found->measure),
                       ", but checkpoint_options::best is ", in_quotes(measure.text()),
                       " now; use the same measure, or move that folder away"});
  return found;
}

}  // namespace plait::detail

namespace plait {

PLAIT_DECL std::filesystem::path best_weights(std::filesystem::path const& folder) {
  auto const found = find_best(folder);
  if (!found)
    detail::file_name("folder of checkpoints", folder)
        .refuse(
            "has no best weights; to keep best weights, set checkpoint_options{.best = measure} in "
            "the run and call after_evaluation(value)");
  return found->path;
}

}  // namespace plait
