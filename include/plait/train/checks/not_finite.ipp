// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/checks/not_finite.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "plait/core/concat.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"

namespace plait::execution {

namespace not_finite_parts {
/// Returns a number as text, without the sign of a NaN.
inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", std::isnan(value) ? std::fabs(value) : value);
  return text;
}
}  // namespace not_finite_parts

PLAIT_DECL std::string not_finite_text(std::string const& name,
                                       std::span<planning::numbers_of_replica const> all) {
  using not_finite_parts::number;
  std::string out;
  for (auto const& one : all) {
    if (one.bad_step == 0) continue;
    bool const is_loss = !std::isfinite(one.bad_loss);
    out += concat({(out.empty() ? name : ""), (out.empty() ? ": " : "; "), "replica ",
                   static_cast<std::int64_t>(&one - all.data()), ": ",
                   (is_loss ? "the loss" : "the norm of the gradients"), " of step ",
                   static_cast<std::int64_t>(one.bad_step) - 1, " is ",
                   number(is_loss ? one.bad_loss : one.bad_norm)});
  }
  return concat({out,
                 "; a replica does not update its parameters after such a step, and the job "
                 "ends at this common update; resume from a checkpoint without the samples of the "
                 "step, or set .clip and .on_not_finite = trainer_options::not_finite::train_on, "
                 "with which a replica leaves out only the update of such a step"});
}

PLAIT_DECL std::string not_finite_text(number_gather const& gather,
                                       std::vector<std::string> const& layers,
                                       step_report const& of,
                                       std::optional<step_report> const& last,
                                       forward_watch const& mine) {
  enum field : std::size_t { found, site, microbatch, leaf, copy };
  std::vector<std::uint64_t> values(compared_fields);
  values[found] = mine.found ? 1 : 0;
  values[site] = mine.site;
  values[microbatch] = static_cast<std::uint64_t>(mine.microbatch);
  values[leaf] = static_cast<std::uint64_t>(mine.leaf);
  values[copy] = static_cast<std::uint64_t>(mine.copy);
  auto const all = gather.of_all(values);

  std::uint64_t const* first = nullptr;
  std::size_t first_rank = 0;
  for (std::size_t other = 0; other < all.size(); ++other) {
    auto const* const theirs = all[other];
    if (theirs[found] == 0 || (first != nullptr && theirs[site] >= first[site])) continue;
    first = theirs;
    first_rank = other;
  }

  using not_finite_parts::number;
  bool const is_loss = !std::isfinite(of.loss);
  std::string out = concat({"trainer: step ", of.step, ": "});
  out += is_loss ? concat({"the loss is ", number(of.loss)})
                 : concat({"the norm of the gradients ",
                           (of.gradient_step != of.step
                                ? concat({"of step ", of.gradient_step, ", which it applies, "})
                                : std::string()),
                           "is ", number(of.gradient_norm)});
  if (last)
    out += concat({"; the last good loss, of step ", last->step, ", is ", number(last->loss)});
  out += "; the step has not changed the weights; ";
  if (first != nullptr) {
    auto name = name_of_copy(layers[first[leaf]], static_cast<int>(first[copy]));
    if (name.ends_with('.')) name.pop_back();
    if (name.empty())
      name.push_back('0');  // if the model is a single layer, this layer has no name
    out += concat({"the first layer whose output is not finite is '", name, "', in microbatch ",
                   first[microbatch], " on rank ", first_rank});
  } else {
    out += "in the forward the outputs of all layers are finite";
  }
  return concat(
      {out, "; to skip such batches, set .on_not_finite = trainer_options::not_finite::skip"});
}

}  // namespace plait::execution
