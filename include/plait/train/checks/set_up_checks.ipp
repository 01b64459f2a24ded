// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/checks/set_up_checks.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "plait/core/quote.hpp"
#include "plait/train/checks/require_same.hpp"

namespace plait::execution {

PLAIT_DECL lean_vector<model_parameter> parameters_of_model(
    lean_vector<parameter_block> const& parameters, static_view<parameter_entry> entries,
    parameter_rules const& rules) {
  lean_vector<model_parameter> out;
  for (auto const& parameter : parameters) {
    auto const& entry = entries[parameter.entry];
    auto const kept = placements_of(entry, rules).kept;
    out.push_back({parameter.name, entry.info.rank,
                   is_shard(entry.stored) ? kept.axes_with(entry.stored) : axis_set{}});
  }
  return out;
}

PLAIT_DECL void check_groups(std::vector<parameter_group> const& groups,
                             lean_vector<model_parameter> const& parameters) {
  for (auto const& group : groups) {
    std::string const which = concat({"the pattern ", detail::in_quotes(group.pattern)});
    require_range(concat({"trainer_options::groups: .rate of ", which}), group.rate,
                  number_ranges::finite_from_0);
    require_range(concat({"trainer_options::groups: .decay of ", which}), group.decay,
                  number_ranges::finite_from_0);
    bool matched = false, counts = false;
    std::string others;  // the patterns of earlier groups that match parameters of this group
    for (auto const& parameter : parameters) {
      if (!matches(group.pattern, parameter.name)) continue;
      matched = true;
      auto const& first = *first_match(groups, parameter.name);
      counts = counts || &first == &group;
      auto const other = detail::in_quotes(first.pattern);
      if (others.find(other) != std::string::npos) continue;
      if (!others.empty()) others += ", ";
      others += other;
    }
    if (!matched)
      throw input_error({"trainer_options::groups: ", which,
                         " matches no parameter of the model; names are like '",
                         (parameters.empty() ? std::string{} : parameters.front().name),
                         "', and a * in a pattern matches any characters"});
    if (!counts)
      throw input_error({"trainer_options::groups: ", which,
                         " has no effect, because all parameters that it matches belong to ",
                         others,
                         " earlier in the list; the first matching group decides, so list narrower "
                         "patterns first"});
  }
}

PLAIT_DECL void check_outer_step(trainer_options const& options, int steps) {
  require_range("trainer_options::outer.rate", options.outer.rate, number_ranges::finite_above_0);
  require_range("trainer_options::outer.momentum", options.outer.momentum,
                {0, number_ranges::below_1, "0 (no momentum) or above, and below 1"});
  if (steps == 0) {
    if (options.outer != ext::outer_step{})
      throw input_error(
          {"trainer_options::outer: rate ", detail::number_text(options.outer.rate),
           " and momentum ", detail::number_text(options.outer.momentum),
           " have no effect, because the job has no common updates; add local_steps<H> to "
           "data_parallel, or leave .outer out"});
    return;
  }
  if (options.average > 0)
    throw input_error({"trainer_options::average is ", detail::number_text(options.average),
                       ", but the job has ", "local_steps<", steps,
                       ">: its replicas have parameters of their own, so "
                       "their averages would differ; leave .average out"});
  if (options.on_not_finite == trainer_options::not_finite::skip)
    throw input_error({"trainer_options::on_not_finite is skip, but the job has local_steps<",
                       steps,
                       ">: a replica that leaves out an update would have optimizer states of "
                       "a different age than the other replicas; use not_finite::stop or "
                       "not_finite::train_on"});
}

PLAIT_DECL std::uint64_t hash_of(lean_vector<named_factors> const& all) {
  hash out;
  for (auto const& [name, factors, is_matrix] : all)
    for (double const factor : {factors.rate, factors.decay, is_matrix ? 1.0 : 0.0})
      out.add(std::bit_cast<std::uint64_t>(factor + 0.0));
  return out.value();
}

PLAIT_DECL std::uint64_t hash_of(recompute_table const& recomputed) {
  hash out;
  if (!recomputed.any()) return 0;
  for (auto const bits : recomputed.nodes) out.add(std::uint64_t{bits});
  for (auto const what : recomputed.units) out.add(static_cast<std::uint64_t>(what));
  return out.value();
}

PLAIT_DECL std::string text_of_data_options(batch_slicing const& slicing,
                                            parameter_rules const& rules) {
  std::string out = text_of_shares(slicing.shares);
  auto const add = [&](std::string const& option) {
    out = concat({out, (out.empty() ? "" : ", "), option});
  };
  if (rules.rounds())
    add(concat({(rules.sent == wire_format::float8 ? "compressed<float8>" : "compressed<bfloat16>"),
                " along ", to_string(rules.rounded_axes)}));
  if (rules.deals_parameters) add("zero_of_matrices");
  return out;
}

PLAIT_DECL void compare_text(number_gather const& gather, std::string const& subject,
                             std::string const& what, std::string const& mine) {
  std::vector<std::uint64_t> packed(compared_fields);
  constexpr std::size_t most = compared_fields * sizeof(std::uint64_t);
  std::memcpy(packed.data(), mine.data(), std::min(mine.size(), most));
  auto const all = gather.of_all(packed);
  auto const text_of = [&](std::size_t of) {
    std::string text(most, '\0');
    std::memcpy(text.data(), all[of], most);
    return detail::in_quotes(text.substr(0, text.find('\0')));
  };
  require_same(gather.generation, all.size(), subject, [&](int rank, int other) -> rank_difference {
    auto const one = text_of(std::size_t(rank)), two = text_of(std::size_t(other));
    if (one == two) return {};
    return {what, one, two};
  });
}

PLAIT_DECL void compare_factors(number_gather const& gather, std::string const& subject,
                                lean_vector<named_factors> const& all) {
  constexpr std::size_t at_a_time = compared_fields / 3;
  for (std::size_t begin = 0; begin < all.size(); begin += at_a_time) {
    consistency_check mine(subject);
    for (std::size_t i = begin; i < std::min(all.size(), begin + at_a_time); ++i) {
      mine.add(concat({"the rate of parameter '", all[i].name, "'"}), all[i].factors.rate);
      mine.add(concat({"the decay of parameter '", all[i].name, "'"}), all[i].factors.decay);
      mine.add(
          concat({"the optimizer's `matrices` for parameter '", all[i].name, "' (1 selects it)"}),
          all[i].is_matrix);
    }
    mine.require_equal(gather, gather.of_all(mine.mine()));
  }
}

PLAIT_DECL void require_same_samples(number_gather const& gather, std::string const& subject,
                                     std::uint64_t step, lean_vector<std::uint64_t> const& hashes) {
  auto const& grid = gather.grid;
  auto const data_rank_of = [&](std::size_t rank) {
    return grid.place_in_group(grid.coordinates_of(int(rank)), batch_axes);
  };
  refuse_joining_ranks(gather.generation, [&](int of_rank, int) {
    auto const& accepted = gather.generation->accepted();
    auto const other = std::size_t(of_rank);
    for (std::size_t one = 0; one < hashes.size(); ++one)
      if (data_rank_of(one) == data_rank_of(other) && hashes[one] != hashes[other] &&
          (accepted[one] || !accepted[other]))
        return concat({subject, ": the samples of step ", step, " have the hash ", hashes[other],
                       " here and ", hashes[one], " on another rank of the replica"});
    return std::string{};
  });
  std::vector<std::size_t> first(std::size_t(grid.size(batch_axes)), hashes.size());
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    int const data_rank = data_rank_of(rank);
    auto& other = first[std::size_t(data_rank)];  // the first rank of this data rank
    if (other == hashes.size()) other = rank;
    if (hashes[other] == hashes[rank]) continue;
    throw input_error({subject, ": rank ", other, " and rank ", rank, " are both data rank ",
                       data_rank, ", and their samples of step ", step, " differ: their hash is ",
                       hashes[other], " on rank ", other, " and ", hashes[rank], " on rank ", rank,
                       "; a data set must return the same inputs, targets and weights for a sample "
                       "on every rank"});
  }
}

}  // namespace plait::execution
