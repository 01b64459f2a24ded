// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/backend/rank.hpp"
#include "plait/train/optimizer.hpp"
#include "plait/train/parameters.hpp"

namespace plait {

/// The gradients of one stage, placed `OnData` on the axes that they are reduced over: partial
/// until `reduce_gradients`, invariant from then on.
template <class Job, placement OnData>
struct gradients {
  typename Job::element* data = nullptr;
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

/// Adds up what the ranks have of each gradient: the transition partial -> invariant, once a step.
///
/// Moves: one all_reduce over the data axis, and one over the data and tensor axes for parameters
///        that all tensor ranks use; both in place in the arena. Accumulators of tied uses are
///        added to the owner's first.
template <class Job, class Rank, class Layout>
gradients<Job, invariant> reduce_gradients(Rank& rank, gradients<Job, partial> mine,
                                           Layout const& layout) {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  static_assert(transition_between(partial, invariant).moves == movement::all_reduce);
  for (int e = 0; e < plan::entries.size(); ++e) {
    auto const& entry = plan::entries[e];
    if (entry.owner < 0 || layout.copies[std::size_t(entry.item)].copies == 0) continue;
    T* const owner = mine.data + layout.offset[std::size_t(e)];
    rank.device().add(owner, mine.data + layout.gradient_offset[std::size_t(e)], owner,
                      entry.local_count());
  }
  if (layout.data_count > 0)
    rank.group(axis::data).all_reduce(std::span<T>(mine.data, layout.data_count));
  if (layout.data_tensor_count > 0)
    rank.group(axis::data | axis::tensor)
        .all_reduce(std::span<T>(mine.data + layout.data_count, layout.data_tensor_count));
  return {mine.data};
}

/// The same, and works out the stage's layout first.
template <class Job, class Rank>
gradients<Job, invariant> reduce_gradients(Rank& rank, gradients<Job, partial> mine) {
  return reduce_gradients<Job>(rank, mine,
                               Job::plan_type::parameter_layout_for(rank.place().stage));
}

/// The norm of all gradients of the model together; each parameter counts once under every mesh.
///
/// Every rank puts the squares of its own blocks where they belong in one list of all parameters
/// (the transitions shard -> partial and, on the first rank alone, invariant -> partial), the lists
/// are added up by one all_reduce over the world, and every rank adds the list up in its order: the
/// same bits for every number of stages.
/// Units:  `squares` has one number for each parameter of the model.
template <class Job, placement OnData, class Rank>
double gradient_norm(Rank& rank, gradients<Job, OnData> of,
                     std::vector<local_parameter> const& parameters, std::span<double> squares) {
  detail::check_reduced<OnData>();
  using plan = typename Job::plan_type;
  for (double& square : squares) square = 0;
  for (auto const& parameter : parameters) {
    bool const cut = is_shard(plan::entries[parameter.entry].stored);
    if (rank.place().data != 0 || (rank.place().tensor != 0 && !cut)) continue;
    rank.device().sum_of_squares(of.data + parameter.offset, parameter.count,
                                 &squares[static_cast<std::size_t>(parameter.number)]);
  }
  rank.world().all_reduce(squares);
  double sum = 0;
  for (double const square : squares) sum += square;
  return std::sqrt(sum);
}

/// Neighbours in the arena that an optimizer treats alike.
struct update_range {
  std::size_t offset = 0;  ///< in elements
  std::size_t count = 0;
  bool decay = true;
};

/// The parameters of a stage in as few ranges as possible; `decays(parameter_description)` says
/// which of them decay.
template <class Plan>
std::vector<update_range> update_ranges(std::vector<local_parameter> const& parameters,
                                        bool (*decays)(parameter_description const&)) {
  std::vector<update_range> out;
  for (auto const& parameter : parameters) {
    bool const decay = decays({parameter.name, Plan::entries[parameter.entry].info.rank});
    if (!out.empty() && out.back().decay == decay &&
        out.back().offset + out.back().count == parameter.offset)
      out.back().count += parameter.count;
    else out.push_back({parameter.offset, parameter.count, decay});
  }
  return out;
}

/// One optimizer step of the parameters of a stage.
///
/// Shapes: parameters and each of the optimizer's states lie like the gradients, `stride` elements
///         from one state to the next.
template <class Job, placement OnData, class Rank, class Optimizer>
void update_parameters(Rank& rank, Optimizer const& optimizer, gradients<Job, OnData> of,
                       typename Job::element* values, typename Job::element* states,
                       std::size_t stride, std::vector<update_range> const& ranges,
                       std::int64_t step, double rate_factor, double gradient_scale) {
  detail::check_reduced<OnData>();
  for (auto const& range : ranges)
    optimizer.update(rank.device(), values + range.offset, of.data + range.offset,
                     states + range.offset, stride, range.count, step, rate_factor, gradient_scale,
                     range.decay);
}

}  // namespace plait
