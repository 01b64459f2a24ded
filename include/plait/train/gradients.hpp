// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/backend/arguments.hpp"
#include "plait/backend/rank.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/stream_operations.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/train/optimizer.hpp"
#include "plait/train/parameters.hpp"

namespace plait {

/// The gradients of one stage, placed `OnData` on the axes that they are reduced over: partial
/// until `reduce_gradients`, invariant from then on.
template <class Job, placement OnData>
struct gradients {
  typename Job::gradient_element* data = nullptr;
};

namespace detail {

template <placement OnData>
consteval void check_reduced() {
  static_assert(OnData == invariant,
                "an optimizer step, a norm or a clip was asked for on gradients that are still "
                "partial (each data rank has its own summand); write "
                "plait::reduce_gradients<Job>(rank, gradients) first and use what it returns");
}

}  // namespace detail

namespace detail {

/// Brings accumulators of tied uses to the placement of the owner's and adds them to it, on stream
/// compute.
template <class Job, class Rank, class Layout>
void add_tied_gradients(Rank& rank, exchange_runner<Rank> const& sums, gradients<Job, partial> mine,
                        Layout const& layout) {
  using plan = typename Job::plan_type;
  auto const compute = rank.device().on(stream::compute);
  if (plan::tensor_ranks > 1 && sums.has(exchange_place::ties))
    rank.cross(stream::tensor, {wait_site::part::step, static_cast<int>(step_phase::passes), -2},
               [&] { sums.run_sums(exchange_place::ties, mine.data); });
  for (int e = 0; e < plan::entries.size(); ++e) {
    auto const& entry = plan::entries[e];
    if (entry.owner < 0 || layout.copies[std::size_t(entry.item)].copies == 0) continue;
    auto* const owner = mine.data + layout.offset[std::size_t(e)];
    auto* const use = mine.data + layout.gradient_offset[std::size_t(e)];
    if (rank.place().tensor != 0 &&
        tie_transition(entry, plan::entries[entry.owner]).moves == movement::mask)
      continue;
    compute.add(owner, use, owner, entry.local_count());
  }
}

}  // namespace detail

/// Adds up what the ranks have of each gradient: the transition partial -> invariant, once a step.
/// A trainer does it by itself; this is for programs that compute gradients without one.
///
/// Moves: what the plan's list has for gradients: one all_reduce over the data axis, and one over
///        the data and tensor axes for parameters that all tensor ranks use; both in place in the
///        arena. Accumulators of tied uses are added to the owner's first.
template <class Job, class Rank, class Layout>
gradients<Job, invariant> reduce_gradients(Rank& rank, gradients<Job, partial> mine,
                                           Layout const& layout) {
  exchange_runner<Rank> const sums(
      rank, exchanges_of<typename Job::plan_type>(rank.place().stage, {}, job_part::training));
  detail::add_tied_gradients<Job>(rank, sums, mine, layout);
  if (sums.has(exchange_place::gradients))
    rank.cross(stream::data, {wait_site::part::step, static_cast<int>(step_phase::reduce)},
               [&] { sums.run_sums(exchange_place::gradients, mine.data); });
  return {mine.data};
}

/// The same, and works out the stage's layout first.
template <class Job, class Rank>
gradients<Job, invariant> reduce_gradients(Rank& rank, gradients<Job, partial> mine) {
  return reduce_gradients<Job>(rank, mine,
                               Job::plan_type::parameter_layout_for(rank.place().stage));
}

/// Sets the gradient of padding to 0, so that it stays 0 whatever the layers make of it.
template <class Job, placement OnData, class Rank>
void clear_padding(Rank& rank, gradients<Job, OnData> of,
                   std::vector<local_parameter> const& parameters) {
  using T = typename Job::gradient_element;
  for (auto const& parameter : parameters)
    if (auto const padding =
            padding_of_block(Job::plan_type::entries[parameter.entry], rank.place().tensor))
      rank.device()
          .on(stream::compute)
          .fill(T{0}, of.data + parameter.offset + parameter.count - padding, padding);
}

/// The blocks of which a rank adds its squares to the gradient norm of the model, in the order of
/// the layers: each parameter counts once under every mesh.
template <class Plan>
std::vector<squares_range> squares_ranges(std::vector<local_parameter> const& parameters,
                                          coordinates const& place) {
  std::vector<squares_range> out;
  for (auto const& parameter : parameters) {
    bool const cut = is_shard(Plan::entries[parameter.entry].stored);
    if (place.data != 0 || (place.tensor != 0 && !cut)) continue;
    out.push_back({parameter.offset, parameter.count, static_cast<std::size_t>(parameter.number)});
  }
  return out;
}

/// Sets `squares` to this rank's share of the squares of each parameter's gradient, on stream
/// compute.
///
/// Every rank puts the squares of its own blocks where they belong in one list of all parameters
/// (the transitions shard -> partial and, on the first rank alone, invariant -> partial). When the
/// lists have been added up by one all_reduce over the world, every rank adds the list up in its
/// order: the same bits for every number of stages.
/// Units:  `squares` has one number for each parameter of the model.
template <class Job, placement OnData, class Rank>
void square_gradients(Rank& rank, gradients<Job, OnData> of, std::span<squares_range const> ranges,
                      std::span<double> squares) {
  detail::check_reduced<OnData>();
  auto const compute = rank.device().on(stream::compute);
  compute.fill(0.0, squares.data(), squares.size());
  compute.sums_of_squares(of.data, ranges.data(), static_cast<int>(ranges.size()), squares.data());
}

/// The parameters of a stage in as few ranges as possible; `decays(parameter_description)` says
/// which of them decay.
template <class Plan>
std::vector<update_range> update_ranges(std::vector<local_parameter> const& parameters,
                                        bool (*decays)(parameter_description const&)) {
  std::vector<update_range> out;
  for (auto const& parameter : parameters) {
    bool const decay = decays({parameter.name, Plan::entries[parameter.entry].info.rank});
    if (!out.empty() && (out.back().decays != 0) == decay &&
        out.back().offset + out.back().count == parameter.offset)
      out.back().count += parameter.count;
    else out.push_back({parameter.offset, parameter.count, decay ? 1 : 0});
  }
  std::sort(out.begin(), out.end(),
            [](auto const& a, auto const& b) { return a.offset < b.offset; });
  return out;
}

/// One optimizer step of the parameters of a stage.
template <class Job, placement OnData, class Rank, class Optimizer>
void update_parameters(Rank& rank, Optimizer const& optimizer, gradients<Job, OnData> of,
                       optimizer_arena<typename Job::parameter_element,
                                       typename Job::gradient_element, typename Job::element>
                           arena,
                       typename Optimizer::numbers const* now) {
  detail::check_reduced<OnData>();
  arena.gradients = of.data;
  optimizer.update(rank.device().on(stream::compute), arena, now);
}

}  // namespace plait
