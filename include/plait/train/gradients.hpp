// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/backend/arguments.hpp"
#include "plait/backend/rank.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/run/transfer_runner.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/options/parameter_groups.hpp"

namespace plait::execution {

/// The gradients of one pipeline stage; the type contains their placement on the batch axes. After
/// the backward they are `partial`: each of 4 data ranks, for example, has a summand, from its own
/// samples. reduce_gradients() returns gradients in the placement in which the optimizer owns them:
/// `invariant`, the same sum on each rank, or, with `zero<1>`, `shard<dim::elements>`: each of the
/// 4 ranks has the sum of a quarter of each bucket. An optimizer step, a norm or a clip takes
/// reduced gradients only, so a forgotten reduction does not compile.
template <class Job, placement OnBatch>
struct gradients {
  typename Job::gradient_element* data = nullptr;
};

/// The placement of the reduced gradients of a job: invariant if each rank has whole gradients, and
/// a shard if each rank has blocks.
template <class Job>
inline constexpr placement reduced_placement =
    Job::plan_type::cuts_arenas ? shard<dim::elements> : invariant;

template <placement OnBatch>
consteval void check_reduced() {
  static_assert(!is_partial(OnBatch),
                "an optimizer step, a norm or a clip got gradients that are still partial (each "
                "data rank has its own summand); call plait::ext::reduce_gradients<Job>(rank, "
                "gradients) first and use the gradients that it returns");
}
template <placement OnBatch>
inline constexpr bool is_reduced = (check_reduced<OnBatch>(), true);

/// Enqueues on stream::compute the addition of the gradients of tied uses to the gradients of the
/// parameters themselves. For example, the gradient of an output head is added to the gradient of
/// the embedding whose matrix the head uses. `begin`: the address of the gradients of the bucket
/// with the parameters.
template <class Sum, class Rank>
void add_tied_gradients(Rank& rank, Sum* mine, static_view<parameter_entry> entries,
                        parameter_rules const& rules, parameter_layout const& layout, int bucket,
                        Sum* begin) {
  auto const& here = layout.buckets[std::size_t(bucket)];
  for (int e = 0; e < entries.size(); ++e) {
    auto const& entry = entries[e];
    auto const& place = layout.entries[std::size_t(e)];
    if (!place.is_tied || place.region != here.region || !here.units.contains(place.unit)) continue;
    bool const counts_once = tie_transition(entry, entries[entry.owner]).moves == local_move::mask;
    if (counts_once && !holds_the_one_copy(placements_of(entry, rules).summed, rank.coordinates()))
      continue;
    int const unit = place.unit;  // the unit of the parameter that the tied use reads
    Sum* const owner = begin + (layout.gradient_offset(entry.owner, unit) - here.elements.offset);
    Sum const* const use =
        mine + layout.place_in(layout.gradients_at, layout.gradient_offset(e, unit));
    rank.device().on(stream::compute).add(owner, use, owner, entry.local_count());
  }
}
template <class Job, class Rank>
void add_tied_gradients(Rank& rank, gradients<Job, partial> mine, parameter_layout const& layout,
                        int bucket, typename Job::gradient_element* begin) {
  using plan = typename Job::plan_type;
  add_tied_gradients(rank, mine.data, plan::entries.view(), plan::rules, layout, bucket, begin);
}

/// Does the work of reduce_gradients(). All jobs with the same element types share this type.
template <class Sum, class Rank, bool OfSeveralRanks>
struct gradient_reduction {
  Rank& rank;
  Sum* mine;
  static_view<parameter_entry> entries;
  parameter_rules const& rules;
  parameter_layout const& layout;

  void run(step_executor<Rank>&& program) const {
    for (auto const& reached : program) {
      auto const& now = reached.now;
      if (now.what == operation_kind::add)
        add_tied_gradients(rank, mine, entries, rules, layout, now.bucket,
                           mine + layout.buckets[std::size_t(now.bucket)].elements.offset);
      if constexpr (OfSeveralRanks)
        if (now.row >= 0) program.transfers().run(now, mine);
    }
  }
};

/// Sums the gradients over the ranks, once per step for any number of microbatches: the transition
/// from `partial` to the placement in which optimizers own gradients. Trainers reduce gradients
/// automatically; this function is for programs that compute gradients without a trainer.
///
/// Moves: the transfers that the plan lists for tied uses and gradients: for each bucket of each
///        region of the arena one all_reduce in place, or a reduce_scatter along each axis whose
///        ranks own blocks.
template <class Job, class Rank>
gradients<Job, reduced_placement<Job>> reduce_gradients(Rank& rank, gradients<Job, partial> mine) {
  using plan = typename Job::plan_type;
  static_assert(
      plan::slices == 0,
      "reduce_gradients<Job>: the job is reproducible<Slices>, whose gradients only a trainer can "
      "add up, slice by slice; call trainer.gradients_of(batch), or leave reproducible out");
  static_assert(
      !plan::rules.sums_blocks(),
      "reduce_gradients<Job>: the job has zero<2> or zero<3>, whose gradients only a trainer can "
      "add up, microbatch by microbatch; call trainer.gradients_of(batch), or use zero<1>");
  static_assert(plan::local_steps == 0,
                "reduce_gradients<Job>: the job has local_steps<H>, whose replicas do not sum "
                "gradients; call trainer.step(batch), or leave local_steps out");
  static_assert(
      !plan::rules.rounds(),
      "reduce_gradients<Job>: the job has compressed gradients, for whose exchange only a trainer "
      "has memory; call trainer.gradients_of(batch), or leave compressed out");
  static_assert(
      !plan::delays,
      "reduce_gradients<Job>: the job has delayed<1>, whose steps reduce the gradients that a "
      "trainer has kept from the step before; call trainer.gradients_of(batch), or leave delayed "
      "out");
  auto const layout = plan::parameter_layout_for(rank.stage(), rank.grid());
  gradient_reduction<typename Job::gradient_element, Rank, plan::grid.world_size() != 1> const work{
      rank, mine.data, plan::entries.view(), plan::rules, layout};
  auto const list = transfers_on<plan>(rank, {}, job_part::training);
  work.run({rank, list, program_of_reduction<plan>(rank.grid(), list, rank.stage())});
  return {mine.data};
}

/// Sets the gradients of padding in a bucket to 0: layers write gradients of padding, but the
/// padding of parameters must stay 0. `begin`: the address of the bucket; `has_gaps`: true if the
/// elements between parameters may contain arbitrary numbers; the function then sets these elements
/// to 0, too.
template <class Sum, class Rank>
void clear_padding(Rank& rank, lean_vector<parameter_block> const& parameters,
                   static_view<parameter_entry> entries, bucket const& in, Sum* begin,
                   bool has_gaps) {
  auto const queue = rank.device().on(stream::compute);
  // Clears the elements from `end` to the next parameter; the list is not in the order of offsets.
  auto const clear_from = [&](std::size_t end) {
    std::size_t next = in.elements.count;
    for (auto const& parameter : parameters)
      if (auto const at = parameter.offset - in.elements.offset;
          parameter.offset >= in.elements.offset && at >= end && at < next)
        next = at;
    if (next > end) queue.fill(Sum{0}, begin + end, next - end);
  };
  if (has_gaps) clear_from(0);
  for (auto const& parameter : parameters) {
    if (entries[parameter.entry].is_frozen || overlap(in.elements, parameter).count == 0) continue;
    std::size_t const end = parameter.offset + parameter.count - in.elements.offset;
    if (has_gaps) clear_from(end);
    if (auto const padding = parameter.padding())
      queue.fill(Sum{0}, begin + end - padding, padding);
  }
}

/// Returns the ranges of gradients whose squares this rank adds to the norm, in the order of the
/// layers: the elements that its optimizer owns. If several ranks own the same elements, only the
/// first of them adds their squares. The square of each element is therefore added exactly once, on
/// any mesh.
template <class Plan, class Blocks>
[[gnu::cold]] lean_vector<squares_range> squares_ranges(
    lean_vector<parameter_block> const& parameters, Blocks const& owned, coordinates const& place) {
  lean_vector<squares_range> out;
  for (auto const& parameter : parameters) {
    auto const& entry = Plan::entries[parameter.entry];
    if (!entry.has_gradient()) continue;
    if (!holds_the_one_copy(placements_of(entry, Plan::rules).owned, place)) continue;
    auto const first =
        static_cast<std::size_t>(Plan::first_square(parameter.entry, parameter.copy));
    for (auto const& block : owned)
      if (auto const common = overlap(block.elements, parameter); common.count > 0) {
        // If the squares of a parameter are summed in several pieces, each block contains whole
        // pieces.
        auto const piece = Plan::piece_of_squares(entry);
        for (std::size_t i = common.offset; i < common.end(); i += piece)
          out.push_back({i - block.elements.offset + block.gradients_at,
                         std::min(piece, common.end() - i),
                         first + (i - parameter.offset) / piece});
      }
  }
  return out;
}

/// Enqueues on stream::compute the computation of `squares`: this rank's part of the sum of squares
/// of each parameter's gradient.
///
/// If each rank added up all of its squares, the order of additions, and so the last bits of the
/// norm, would depend on the number of stages. So there is a list with one number for each trained
/// parameter of the whole model. Every rank writes the sums of squares of its own blocks to the
/// entries of their parameters, and zeros to the other entries. If several ranks have the same
/// gradient, only the first of them writes its squares. One all_reduce over the world adds the
/// lists element by element, and every rank then adds up the summed list in the same order. For a
/// model of 29 trained parameters the list has 232 bytes.
/// Units:  `squares` has one number for each trained parameter of the model, or for each piece of a
///         parameter: plan::norm_partial_count().
template <class Job, placement OnBatch, class Rank>
void square_gradients(Rank& rank, gradients<Job, OnBatch> of, std::span<squares_range const> ranges,
                      std::span<double> squares) {
  static_assert(is_reduced<OnBatch>);
  auto const compute = rank.device().on(stream::compute);
  compute.fill(0.0, squares.data(), squares.size());
  compute.sums_of_squares(of.data, ranges.data(), static_cast<int>(ranges.size()), squares.data());
}

/// Joins neighbouring ranges that have the same factors, in a block of `count` elements. Elements
/// between two ranges become a part of the first range.
[[gnu::cold]] void join_ranges(lean_vector<update_range>& ranges, std::size_t count);

/// The factors of buffers, which are tensors such as running means that no optimizer updates.
/// Buffers need factors, too, because the ranges of a block cover all of its elements.
inline constexpr update_factors not_updated{0, 0};

/// Returns the ranges of one block, each with its factors of the learning rate and of the weight
/// decay. The ranges cover the block and are as few as possible; padding belongs to the range in
/// front of the padding. If a block has two matrices and then a bias, and biases do not decay,
/// there are two ranges. Offsets count from the block's first element.
/// `decays(parameter_description)`: returns true for parameters that decay; `groups`: the groups of
/// parameters that have their own factors.
template <class Plan, class Decays>
[[gnu::cold]] lean_vector<update_range> update_ranges(
    lean_vector<parameter_block> const& parameters, owned_block const& block, Decays const& decays,
    std::vector<parameter_group> const& groups = {}) {
  lean_vector<update_range> out;
  for (auto const& parameter : parameters)
    if (auto const common = overlap(block.elements, parameter); common.count > 0) {
      auto const& entry = Plan::entries[parameter.entry];
      auto const [rate, decay] =
          entry.info.is_buffer() ? not_updated
                                 : factors_of({parameter.name, entry.info.rank}, decays, groups);
      out.push_back({common.offset - block.elements.offset, common.count, rate, decay});
    }
  join_ranges(out, block.elements.count);
  return out;
}

/// Updates one block of the parameters of a stage with the optimizer. `arena`: the operands, an
/// optimizer_arena, without the gradients.
template <class Job, placement OnBatch, class Rank, class Optimizer, class Arena>
void update_parameters(Rank& rank, Optimizer const& optimizer, gradients<Job, OnBatch> of,
                       owned_block const& block, Arena arena,
                       typename Optimizer::numbers const* now) {
  static_assert(is_reduced<OnBatch>);
  arena.gradients = of.data + block.gradients_at;
  optimizer.update(rank.device().on(stream::compute), arena, now);
}

}  // namespace plait::execution

namespace plait::ext {

using execution::gradients;
using execution::reduce_gradients;

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/train/gradients.ipp"
#endif
