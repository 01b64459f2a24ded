// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plait/core/static_vector.hpp"
#include "plait/mesh/layout.hpp"
#include "plait/plan/layout.hpp"
#include "plait/plan/parameter_plan.hpp"
#include "plait/plan/program.hpp"
#include "plait/plan/stage_split.hpp"
#include "plait/plan/workload.hpp"

namespace plait {

/// What a job does; each part has a list of exchanges of its own.
enum class job_part : int {
  training,           ///< one step, with clipping if the workload says so
  evaluation,         ///< the loss of one batch
  prediction,         ///< the output of one microbatch
  export_parameters,  ///< to the root rank
  export_gradients
};

/// Where in its part of a job an exchange takes place.
enum class exchange_place : int {
  labels,           ///< before the passes: their count
  forward,          ///< within an item, in each of its copies, for each microbatch
  backward,         ///< the same
  activation_edge,  ///< between two stages, for each microbatch
  gradient_edge,    ///< the same, against the order of the stages
  ties,             ///< behind the passes: gradients of tied uses, to be added to their owner's
  gradients,
  loss,
  squares,   ///< of the gradients, for their norm
  output,    ///< of a prediction
  parameter  ///< of an export
};

/// The number of enumerators of `exchange_place`.
inline constexpr int exchange_places = 11;

/// Which of a job's types the elements of an exchange have.
enum class exchange_element : int { compute, slot, gradient, parameter, real };

/// One communication of a job: the value that goes from one layout to another. The movement and
/// the axes follow from the table.
struct exchange {
  exchange_place place = exchange_place::labels;
  layout from{}, to{};
  exchange_element element = exchange_element::real;
  std::size_t count = 1;   ///< elements of the whole value within one group
  int item = -1;           ///< of the program, where the place is within one
  int entry = -1;          ///< of the parameters, in a tie and in an export
  std::int64_t times = 1;  ///< for all copies and microbatches
  std::size_t offset = 0;  ///< of its first element, where one arena has several

  [[nodiscard]] constexpr layout_transition row() const { return transition_between(from, to); }
  /// False for the rank that only receives: a message stands in the lists of both its ends.
  [[nodiscard]] constexpr bool is_sent_by(int stage) const {
    return row().moves != movement::send || from.at(axis::stage).index == stage;
  }
  friend constexpr bool operator==(exchange const&, exchange const&) = default;
};

/// What the list is made of, as numbers: the same type for all plans.
struct listed_plan {
  static_view<step> steps;
  static_view<value> values;
  static_view<item> items;
  static_view<form_info> forms;
  static_view<bool> needs_gradient;
  static_view<parameter_entry> entries;
  static_view<unit_range> stage_units;
  int tensor_ranks = 1;
  int parameter_tensors = 0;

  [[nodiscard]] constexpr int stages() const { return stage_units.size(); }
};

/// Where the gradients of a stage lie that are summed.
struct listed_gradients {
  std::size_t data_count = 0, data_tensor_count = 0;
  std::size_t const* offsets = nullptr;  ///< of each entry's accumulator
};

namespace detail {

/// Writes the list of one stage, in the order in which a place has its exchanges.
struct exchange_lister {
  listed_plan const& plan;
  int stage;
  workload const& load;
  std::vector<exchange> out{};

  [[nodiscard]] constexpr bool is_first() const { return stage == 0; }
  [[nodiscard]] constexpr bool is_last() const { return stage == plan.stages() - 1; }
  static constexpr placement on_stage(int which) { return {placement_kind::only, which}; }
  /// Of what each data rank has for its own samples.
  constexpr layout of_samples(placement tensor) const {
    return layout{}
        .with(axis::data, shard<dim::batch>)
        .with(axis::tensor, tensor)
        .with(axis::stage, on_stage(stage));
  }
  constexpr std::int64_t copies(int item) const {
    return copies_in(plan.items.first, item, plan.stage_units[stage]).copies;
  }
  constexpr void add(exchange const& made) {
    if (made.times > 0 && communicates(made.row().moves)) out.push_back(made);
  }

  /// A sum of numbers that all ranks of some axes have a summand of.
  constexpr void add_sum(exchange_place place, layout from, exchange_element element,
                         std::size_t count, std::size_t offset = 0) {
    layout to = from;
    for (axis const which : all_axes)
      if (is_partial(from.at(which))) to = to.with(which, invariant);
    if (count > 0) add({place, from, to, element, count, -1, -1, 1, offset});
  }

  constexpr void add_item(exchange_place place, int item) {
    auto const& piece = plan.items[item];
    bool const forward = place == exchange_place::forward;
    std::int64_t const times = copies(item) * load.microbatches;
    for (int i = 0; i < piece.end_step - piece.first_step; ++i) {
      auto const& now = plan.steps[forward ? piece.first_step + i : piece.end_step - 1 - i];
      if (now.kind == step_kind::move) {
        auto const& in = plan.values[now.in];
        auto const& made = plan.values[now.out];
        if (forward)
          add({place, of_samples(in.at), of_samples(made.at), exchange_element::compute,
               load.rows * in.info.width, item, -1, times});
        else if (plan.needs_gradient[now.in])
          add({place, of_samples(dual(made.at)), of_samples(dual(in.at)), exchange_element::compute,
               load.rows * in.info.width, item, -1, times});
      }
      if (now.kind == step_kind::leaf && forward) {
        auto const& form = plan.forms[now.leaf];
        for (int k = 0; k < form.inner_count; ++k) {
          auto const& move = form.inner[std::size_t(k)];
          add({place, of_samples(move.from), of_samples(move.to), exchange_element::slot,
               load.rows * move.width, item, -1, times});
        }
      }
    }
  }

  /// The value before unit `unit` between its stages; `unit` is the first of stage `later`.
  constexpr void add_edge(exchange_place place, int unit, int later) {
    auto const& what = plan.values[value_before(plan.items.first, unit)];
    bool const forward = place == exchange_place::activation_edge;
    auto const where = of_samples(forward ? what.at : dual(what.at));
    int const from = forward ? later - 1 : later, to = forward ? later : later - 1;
    add({place, where.with(axis::stage, on_stage(from)), where.with(axis::stage, on_stage(to)),
         exchange_element::compute, local_block(what, load.rows, plan.tensor_ranks).count(), -1, -1,
         load.microbatches});
  }

  constexpr void add_passes(bool backward, int end_item) {
    auto const units = plan.stage_units[stage];
    if (!is_first()) add_edge(exchange_place::activation_edge, units.begin, stage);
    for (int item = 0; item < end_item; ++item) add_item(exchange_place::forward, item);
    if (!is_last()) add_edge(exchange_place::activation_edge, units.end, stage + 1);
    if (!backward) return;
    if (!is_last()) add_edge(exchange_place::gradient_edge, units.end, stage + 1);
    for (int item = end_item - 1; item >= 0; --item) add_item(exchange_place::backward, item);
    if (!is_first()) add_edge(exchange_place::gradient_edge, units.begin, stage);
  }

  constexpr void add_step(bool training, listed_gradients const& parameters) {
    using enum exchange_place;
    constexpr layout on_data = layout{}.with(axis::data, partial);
    add_sum(labels, on_data, exchange_element::real, 1);
    add_passes(training, plan.items.size());
    if (training) {
      add_ties(parameters);
      auto const here = on_data.with(axis::stage, on_stage(stage));
      add_sum(gradients, here, exchange_element::gradient, parameters.data_count);
      add_sum(gradients, here.with(axis::tensor, partial), exchange_element::gradient,
              parameters.data_tensor_count, parameters.data_count);
    }
    // The last stage alone has a loss; with zeros elsewhere it is a sum over the stages, too.
    add_sum(loss, on_data.with(axis::stage, partial), exchange_element::real, 1);
    // Each block of a gradient counts on one of the ranks that have it.
    if (training && load.gradient_norm)
      add_sum(squares, on_data.with(axis::tensor, partial).with(axis::stage, partial),
              exchange_element::real, std::size_t(plan.parameter_tensors));
  }

  constexpr void add_ties(listed_gradients const& parameters) {
    for (int e = 0; e < plan.entries.size(); ++e) {
      auto const& use = plan.entries[e];
      if (use.owner < 0 || copies(use.item) == 0) continue;
      auto const here = layout{}.with(axis::data, partial).with(axis::stage, on_stage(stage));
      add({exchange_place::ties, here.with(axis::tensor, dual(use.used)),
           here.with(axis::tensor, dual(plan.entries[use.owner].used)), exchange_element::gradient,
           use.local_count(), use.item, e, 1, parameters.offsets[e]});
    }
  }

  constexpr void add_prediction() {
    int const loss = plan.items.size() - 1;
    auto const& made = plan.values[plan.items[loss].in];
    std::size_t const count = load.rows * made.info.width;
    add_passes(false, loss);
    if (is_last())
      add({exchange_place::output, of_samples(made.at), of_samples(invariant),
           exchange_element::compute, count});
    auto const last = of_samples(invariant).with(axis::stage, on_stage(plan.stages() - 1));
    if (plan.stages() > 1)
      add({exchange_place::output, last, last.with(axis::stage, invariant),
           exchange_element::compute, count});
  }

  constexpr void add_export(exchange_element element) {
    for (int owner = 0; owner < plan.stages(); ++owner)
      for (int e = 0; e < plan.entries.size(); ++e) {
        auto const& entry = plan.entries[e];
        std::int64_t const times =
            entry.owner >= 0
                ? 0
                : copies_in(plan.items.first, entry.item, plan.stage_units[owner]).copies;
        auto const whole = layout{}.with(axis::stage, on_stage(owner));
        if (owner == stage)
          add({exchange_place::parameter, whole.with(axis::tensor, entry.stored), whole, element,
               entry.info.count(), entry.item, e, times});
        if (owner != 0 && (stage == 0 || stage == owner))
          add({exchange_place::parameter, whole, whole.with(axis::stage, on_stage(0)), element,
               entry.info.count(), entry.item, e, times});
      }
  }
};

}  // namespace detail

/// All communication of one part of a job on the ranks of one stage. Rows of a repeat stand once,
/// whatever the number of its copies and of microbatches.
///
/// Where a place has several exchanges they stand in their order; the order of the places is that
/// of the stage's timetable.
constexpr std::vector<exchange> list_exchanges(listed_plan const& plan,
                                               listed_gradients const& gradients, int stage,
                                               workload const& load, job_part part) {
  detail::exchange_lister list{plan, stage, load};
  switch (part) {
    case job_part::training: list.add_step(true, gradients); break;
    case job_part::evaluation: list.add_step(false, gradients); break;
    case job_part::prediction: list.add_prediction(); break;
    case job_part::export_parameters: list.add_export(exchange_element::parameter); break;
    case job_part::export_gradients: list.add_export(exchange_element::gradient); break;
  }
  return std::move(list.out);
}

/// The same of a plan.
template <class Plan>
constexpr std::vector<exchange> exchanges_of(int stage, workload const& load, job_part part) {
  auto const parameters = Plan::parameter_layout_for(stage);
  listed_plan const numbers{
      .steps = Plan::code.steps.view(),
      .values = Plan::code.values.view(),
      .items = Plan::code.items.view(),
      .forms = Plan::code.forms.view(),
      .needs_gradient = {Plan::needs_gradient.data(), Plan::code.values.size()},
      .entries = Plan::entries.view(),
      .stage_units = {Plan::stage_units.data(), Plan::stages},
      .tensor_ranks = Plan::tensor_ranks,
      .parameter_tensors = Plan::parameter_tensor_count()};
  return list_exchanges(
      numbers,
      {parameters.data_count, parameters.data_tensor_count, parameters.gradient_offset.data()},
      stage, load, part);
}

}  // namespace plait
