// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "plait/core/static_vector.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/program_operation.hpp"
#include "plait/plan/stage_split.hpp"
#include "plait/plan/synchronization.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// Something that operations read and write, by name.
struct program_buffer {
  enum class name : int {
    labels,
    scale,
    loss,
    squares,
    numbers,        ///< that ranks compare, or of measures
    parameters,     ///< of a unit
    gradients,      ///< of a unit's parameters
    record,         ///< a slot of a chunk: what its layers have made of a microbatch
    stash,          ///< a slot: what backward_input leaves to backward_parameters
    edge_input,     ///< a slot: what the chunk before has sent
    edge_gradient,  ///< a slot: what the chunk behind has sent
    made_gradient,  ///< of a unit's input: units of a backward use two places in turn
    outputs,        ///< of a microbatch, brought together
    state,          ///< arenas of a trainer
    tensor          ///< the room of an export
  };
  name what = name::labels;
  int number = 0;  ///< a unit, a slot, a microbatch
  int chunk = 0;   ///< of the stage, whose slot it is
  friend constexpr auto operator<=>(program_buffer const&, program_buffer const&) = default;
};

/// All that a rank does in one part of a job, in the order in which it is handed to its streams:
/// what is handed to stream compute before comes before the first operation, and behind the last
/// one the host waits for all streams before it begins another program.
struct step_program {
  std::vector<program_operation> operations{};
  std::vector<stream_operation> touched{};  ///< of each; buffers by their numbers
  std::vector<program_buffer> buffers{};    ///< their names
};

/// What a step does besides what its list says.
struct program_shape {
  bool counts = true;  ///< labels, and adds up the loss
  bool clips = false;
  bool updates = false;
  bool checks_loss = false;  ///< before it updates
  bool masks_loss = false;   ///< of ranks that have the same loss, one counts
};

/// Writes the program of a rank of a stage, operation by operation.
class program_writer {
  using name = program_buffer::name;
  using buffers = std::vector<program_buffer>;

 public:
  /// `list`: of the stage and the part of the job; rows have their numbers in it.
  [[gnu::cold]] program_writer(listed_plan const& plan, std::vector<exchange> const& list,
                               int stage)
      : plan_(plan), list_(list), stage_(stage) {}

  [[nodiscard]] step_program take() { return std::move(out_); }

  /// The rows of one place; they move what `touched` names.
  [[gnu::cold]] void write_rows(exchange_place place, name touched) {
    write_around({{touched}}, [&] { add_rows(place, {{touched}}); });
  }

  /// Adds up gradients that are there.
  [[gnu::cold]] void write_reduction() {
    write_around(units(name::gradients), [&] { reduce_gradients(); });
  }

  [[gnu::cold]] void write_training(stage_program const& passes, program_shape const& shape) {
    begin_step();
    if (plan_.slices > 0) compute(operation_kind::clear, {}, units(name::gradients));
    add_passes(passes, [](auto const&...) {});
    if (shape.masks_loss) compute(operation_kind::mask, {}, {{name::loss}});
    reduce_gradients();
    sum_loss();
    if (shape.clips) {
      compute(operation_kind::square, units(name::gradients), {{name::squares}});
      add_rows(exchange_place::squares, {{name::squares}});
    }
    if (shape.updates) {
      auto reads = joined(units(name::gradients), {{name::squares}});
      if (shape.checks_loss) reads.push_back({name::loss});
      compute(operation_kind::update, reads, units(name::parameters));
      add_rows(exchange_place::refresh, units(name::parameters));
    }
    compute(operation_kind::read, {{name::labels}, {name::loss}}, {});
  }

  [[gnu::cold]] void write_evaluation(stage_program const& passes, program_shape const& shape) {
    bool const measures = std::ranges::any_of(
        list_, [](exchange const& row) { return row.place == exchange_place::measures; });
    if (shape.counts) begin_step();
    add_passes(passes, [&](int microbatch, buffers const& made) {
      if (!measures) return;
      bring_together(made, {name::outputs}, microbatch);
      add({.what = operation_kind::measure, .microbatch = microbatch}, stream::compute,
          {{name::outputs}}, {});
      out_.touched.back().host_waits = true;
    });
    if (shape.counts) sum_loss();
    compute(operation_kind::read, {{name::labels}, {name::loss}}, {});
  }

  [[gnu::cold]] void write_prediction(stage_program const& passes) {
    add_passes(passes, [&](int microbatch, buffers const& made) {
      bring_together(made, {name::outputs, microbatch}, microbatch);
    });
    buffers all;  // also where none of them is made
    for (auto const& now : passes.operations)
      if (now.kind == work::forward) all.push_back({name::outputs, now.microbatch});
    add_rows(exchange_place::rank_outputs, all);
    add_rows(exchange_place::outputs, all);
    compute(operation_kind::read, all, {});
  }

  /// The blocks of the arena; then one tensor behind the other, in the order of the layers.
  [[gnu::cold]] void write_export(bool gradients) {
    compute(operation_kind::send, {}, {{name::state}});
    add_rows(exchange_place::blocks, {{name::state}});
    int unit = 0;
    for (int item = 0; item < plan_.items.size(); ++item)
      for (int copy = 0; copy < plan_.items[item].count; ++copy, ++unit)
        for (int e = 0; e < plan_.entries.size(); ++e) {
          auto const& entry = plan_.entries[e];
          if (entry.item == item && entry.owner < 0 && !(gradients && entry.is_frozen))
            add_tensor({.units = {unit, unit + 1}, .entry = e}, plan_.stage_of(unit));
        }
  }

 private:
  [[nodiscard]] buffers units(name what) const {
    buffers out;
    for (auto const& chunk : plan_.chunks_of(stage_))
      for (int unit = chunk.begin; unit < chunk.end; ++unit) out.push_back({what, unit});
    return out;
  }
  static buffers joined(buffers some, buffers const& others) {
    some.insert(some.end(), others.begin(), others.end());
    return some;
  }

  void add(program_operation const& made, stream on, buffers const& reads, buffers const& writes) {
    auto const numbers = [this](buffers const& some) {
      std::vector<int> out;
      for (auto const& one : some) {
        auto const [at, is_new] = numbers_.try_emplace(one, int(out_.buffers.size()));
        if (is_new) out_.buffers.push_back(one);
        out.push_back(at->second);
      }
      return out;
    };
    out_.operations.push_back(made);
    out_.touched.push_back({on, numbers(reads), numbers(writes)});
  }
  void compute(operation_kind what, buffers const& reads, buffers const& writes) {
    add({.what = what}, stream::compute, reads, writes);
  }

  /// The rows that `which` chooses, of those that are in a group of more than one rank, each as
  /// `made` says; how many there are.
  template <class Which>
  int add_rows_that(Which which, program_operation made, buffers const& reads,
                    buffers const& writes) {
    int added = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (!which(list_[i])) continue;
      auto const over = list_[i].row().over;
      if (plan_.grid.size(over) == 1) continue;
      made.row = static_cast<int>(i);
      add(made, stream_of(over), reads, writes);
      ++added;
    }
    return added;
  }
  int add_rows(exchange_place place, buffers const& touched) {
    return add_rows_that([&](exchange const& row) { return row.place == place; }, {}, touched,
                         touched);
  }
  /// This rank's end of the message between two chunks; `unit` is the first of the later one.
  void add_message(exchange_place place, int unit, bool sends, int chunk, int microbatch,
                   buffers const& touched) {
    add_rows_that(
        [&](exchange const& row) {
          return row.place == place && row.unit == unit && row.is_sent_by(stage_) == sends;
        },
        {.chunk = chunk, .microbatch = microbatch}, sends ? touched : buffers{},
        sends ? buffers{} : touched);
  }

  template <class Body>
  void write_around(buffers const& touched, Body body) {
    compute(operation_kind::send, {}, touched);
    body();
    compute(operation_kind::read, touched, {});
  }

  void begin_step() {
    compute(operation_kind::send, {}, {{name::labels}, {name::loss}});
    add_rows(exchange_place::labels, {{name::labels}});
    compute(operation_kind::scale, {{name::labels}}, {{name::scale}});
  }

  /// The timetable of the stage. Behind the forward of the chunk that has the model's output
  /// then(microbatch, what it lies in).
  template <class Then>
  void add_passes(stage_program const& passes, Then then) {
    std::vector<bool> has_begun(std::size_t(plan_.chunks), false);
    for (auto const& now : passes.operations) {
      auto const& chunk = plan_.chunks_of(stage_)[now.chunk];
      bool const ends_model = chunk.end == plan_.unit_count();
      int const m = now.microbatch;
      auto const slot = [&](name what, int count) {
        return count == 0 ? buffers{} : buffers{{what, m % count, now.chunk}};
      };
      auto const record = slot(name::record, passes.slots.activations);
      auto const stash = slot(name::stash, passes.slots.activations);
      auto const input = slot(name::edge_input, chunk.begin == 0 ? 0 : passes.slots.inputs);
      auto const gradient = slot(name::edge_gradient, ends_model ? 0 : passes.slots.gradients);
      buffers written{{name::made_gradient, 0}};
      if (chunk.end - chunk.begin > 1) written.push_back({name::made_gradient, 1});
      buffers const made{{name::made_gradient, (chunk.end - chunk.begin - 1) % 2}};
      buffers parameters, gradients;
      for (int unit = chunk.begin; unit < chunk.end; ++unit) {
        parameters.push_back({name::parameters, unit});
        gradients.push_back({name::gradients, unit});
      }
      program_operation run{.chunk = now.chunk, .units = chunk, .microbatch = m};
      auto const begin_gradients = [&] {
        run.begins = plan_.slices == 0 && !has_begun[std::size_t(now.chunk)];  // else cleared
        has_begun[std::size_t(now.chunk)] = true;
      };
      auto const reads = joined(parameters, {{name::scale}});
      switch (now.kind) {
        case work::forward:
          run.what = operation_kind::forward;
          add(run, stream::compute, joined(reads, input), joined(record, {{name::loss}}));
          if (ends_model) then(m, joined(record, input));
          break;
        // The slots are given back by who reads them last: written as far as others are concerned.
        case work::backward:
          run.what = operation_kind::backward;
          begin_gradients();
          add(run, stream::compute, reads,
              joined(joined(record, input), joined(joined(gradient, written), gradients)));
          break;
        case work::backward_input:
          run.what = operation_kind::backward_input;
          add(run, stream::compute, joined(reads, joined(record, input)),
              joined(joined(gradient, written), stash));
          break;
        case work::backward_parameters:
          run.what = operation_kind::backward_parameters;
          begin_gradients();
          add(run, stream::compute, reads, joined(joined(record, input), joined(stash, gradients)));
          break;
        case work::send_activation:
          add_message(exchange_place::activation_edge, chunk.end, true, now.chunk, m, record);
          break;
        case work::receive_activation:
          add_message(exchange_place::activation_edge, chunk.begin, false, now.chunk, m, input);
          break;
        case work::send_gradient:
          add_message(exchange_place::gradient_edge, chunk.begin, true, now.chunk, m, made);
          break;
        case work::receive_gradient:
          add_message(exchange_place::gradient_edge, chunk.end, false, now.chunk, m, gradient);
          break;
      }
    }
  }

  void reduce_gradients() {
    auto const gradients = units(name::gradients);
    add_rows(exchange_place::slices, gradients);
    add_rows(exchange_place::ties, gradients);
    compute(operation_kind::add, gradients, gradients);
    add_rows(exchange_place::gradients, gradients);
  }
  void sum_loss() {
    add_rows(exchange_place::loss, {{name::loss}});
    if (plan_.slices > 0) compute(operation_kind::total, {{name::loss}}, {{name::loss}});
  }

  /// The output of a microbatch, whole: by its row, or where all of it is here.
  void bring_together(buffers const& made, program_buffer const& to, int microbatch) {
    auto const is_output = [](exchange const& row) { return row.place == exchange_place::output; };
    if (add_rows_that(is_output, {.microbatch = microbatch}, made, {to}) == 0)
      add({.what = operation_kind::take, .microbatch = microbatch}, stream::compute, made, {to});
  }

  /// A tensor of stage `owner` to the root.
  void add_tensor(program_operation const& of, int owner) {
    auto const is_of = [&](exchange const& row, bool message) {
      return row.place == exchange_place::parameter && row.entry == of.entry &&
             row.from.stage() == owner && (row.row().moves == movement::send) == message;
    };
    if (stage_ == owner && add_rows_that([&](exchange const& row) { return is_of(row, false); }, of,
                                         {{name::state}}, {{name::tensor}}) == 0) {
      auto taken = of;
      taken.what = operation_kind::take;
      add(taken, stream::compute, {{name::state}}, {{name::tensor}});
    }
    add_rows_that([&](exchange const& row) { return is_of(row, true); }, of, {{name::tensor}},
                  {{name::tensor}});
    if (stage_ != 0) return;
    auto read = of;
    read.what = operation_kind::read;
    add(read, stream::compute, {{name::tensor}}, {});
    out_.touched.back().host_waits = true;
  }

  listed_plan const& plan_;
  std::vector<exchange> const& list_;
  int stage_;
  std::map<program_buffer, int> numbers_{};
  step_program out_{};
};

/// The program of the ranks of a stage in a part of a job: where the part is a step, its passes and
/// what is around them; else its rows.
///
/// `plan`: with all sizes of its mesh; `list`: of this stage and part, as list_exchanges gives it,
/// to which the rows' numbers belong; `passes`: of the stage, where the part has some.
/// Cost: proportional to the operations and what they touch.
[[nodiscard]] [[gnu::cold]] inline step_program make_step_program(listed_plan const& plan,
                                                                  std::vector<exchange> const& list,
                                                                  int stage, job_part part,
                                                                  stage_program const& passes,
                                                                  program_shape const& shape = {}) {
  program_writer writer(plan, list, stage);
  switch (part) {
    case job_part::set_up:
      writer.write_rows(exchange_place::agreement, program_buffer::name::numbers);
      break;
    case job_part::training: writer.write_training(passes, shape); break;
    case job_part::evaluation: writer.write_evaluation(passes, shape); break;
    case job_part::prediction: writer.write_prediction(passes); break;
    case job_part::export_parameters: writer.write_export(false); break;
    case job_part::export_gradients: writer.write_export(true); break;
    case job_part::hand_over: writer.write_rows(exchange_place::state, program_buffer::name::state);
  }
  return writer.take();
}

/// The same of a plan, whose mesh is `grid` with all its sizes.
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of(mesh const& grid,
                                                    std::vector<exchange> const& list, int stage,
                                                    job_part part, stage_program const& passes = {},
                                                    program_shape const& shape = {}) {
  auto numbers = plan_numbers<Plan>;
  numbers.grid = grid;
  return make_step_program(numbers, list, stage, part, passes, shape);
}

/// The program that adds up gradients that are there, by the list of a step.
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of_reduction(mesh const& grid,
                                                              std::vector<exchange> const& list,
                                                              int stage) {
  auto numbers = plan_numbers<Plan>;
  numbers.grid = grid;
  program_writer writer(numbers, list, stage);
  writer.write_reduction();
  return writer.take();
}

/// The program that carries out the rows of one place of a list and nothing else; they move what
/// `touched` names.
[[nodiscard]] [[gnu::cold]] inline step_program program_of_rows(mesh const& grid,
                                                                std::vector<exchange> const& list,
                                                                exchange_place place,
                                                                program_buffer::name touched) {
  listed_plan numbers{};
  numbers.grid = grid;
  program_writer writer(numbers, list, 0);
  writer.write_rows(place, touched);
  return writer.take();
}

}  // namespace plait::planning
