// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plait/mesh/mesh.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/stage_split.hpp"
#include "plait/plan/synchronization.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// What one operation of a rank's program does. All but rows compute, on stream compute.
enum class operation_kind : int {
  row,       ///< of the list
  send,      ///< numbers from the host
  scale,     ///< one label's share of the loss
  forward,   ///< of units of a chunk, on a microbatch; with the rows within its layers
  backward,  ///< the same
  measure,   ///< what measures make of a microbatch's outputs
  add,       ///< gradients of tied uses to their owner's
  total,     ///< the loss of all slices, where sums are made slice by slice
  square,    ///< the blocks of the gradients that count here
  update,    ///< clipping and the optimizer
  read       ///< numbers, a tensor, or outputs to the host
};

/// The number of enumerators of `operation_kind`.
inline constexpr int operation_kinds = 11;

/// The words used for `kind` in messages and pictures.
[[nodiscard]] constexpr char const* to_string(operation_kind kind) {
  constexpr char const* words[operation_kinds]{"row",      "send",    "scale", "forward",
                                               "backward", "measure", "add",   "total",
                                               "square",   "update",  "read"};
  return words[static_cast<int>(kind)];
}

/// One operation of a rank's program.
struct program_operation {
  operation_kind what = operation_kind::row;
  int row = -1;         ///< its number in the list
  int chunk = -1;       ///< of the stage, where units are run
  unit_range units{};   ///< that are run, or of which a row moves something
  int microbatch = -1;  ///< -1: not of one
  friend constexpr bool operator==(program_operation const&, program_operation const&) = default;
};

/// Something that operations read and write, by name.
struct program_buffer {
  enum class name : int {
    labels,
    scale,
    loss,
    squares,
    agreement,
    measures,
    parameters,     ///< of a unit
    gradients,      ///< of a unit's parameters
    record,         ///< a slot: what layers of a microbatch have made
    edge_input,     ///< a slot: what the stage before has sent
    edge_gradient,  ///< a slot: what the stage behind has sent
    made_gradient,  ///< of the input of the last backward
    outputs,        ///< of a microbatch
    tensor          ///< of an export: a unit's
  };
  name what = name::labels;
  int number = 0;  ///< a unit, a slot, a microbatch
  friend constexpr auto operator<=>(program_buffer const&, program_buffer const&) = default;
};

/// All that a rank does in one part of a job, in the order in which it is handed to its streams.
/// Between two runs the host waits for all streams.
struct step_program {
  std::vector<program_operation> operations{};
  std::vector<stream_operation> touched{};  ///< of each; buffers by their numbers
  std::vector<program_buffer> buffers{};    ///< their names
};

/// What a part of a job does besides what its list says.
struct program_shape {
  bool clips = false;
  bool updates = false;
  bool checks_loss = false;  ///< before it updates
  bool has_slices = false;   ///< whose sums are made one by one
};

/// Writes the program of a rank, operation by operation.
class program_writer {
  using name = program_buffer::name;
  using buffers = std::vector<program_buffer>;

 public:
  program_writer(listed_plan const& plan, std::vector<exchange> const& list, int stage)
      : plan_(plan), list_(list), stage_(stage), units_(plan.stage_units[stage]) {}

  void write(job_part part, stage_program const& passes, program_shape const& shape) {
    switch (part) {
      case job_part::set_up: return write_sum(exchange_place::agreement, {{name::agreement}});
      case job_part::training: return write_training(passes, shape);
      case job_part::evaluation: return write_evaluation(passes, shape);
      case job_part::prediction: return write_prediction(passes);
      case job_part::export_parameters:
      case job_part::export_gradients: return write_export();
      case job_part::hand_over: return add_rows(exchange_place::state, all_of(name::parameters));
    }
  }
  [[nodiscard]] step_program take() { return std::move(out_); }

 private:
  [[nodiscard]] bool is_first() const { return stage_ == 0; }
  [[nodiscard]] bool is_last() const { return stage_ == plan_.stages() - 1; }
  [[nodiscard]] buffers all_of(name what) const {
    buffers out;
    for (int unit = units_.begin; unit < units_.end; ++unit) out.push_back({what, unit});
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

  /// The rows of the list that `which` chooses and that are in a group of more than one rank.
  template <class Which>
  void add_rows_that(Which which, buffers const& reads, buffers const& writes,
                     program_operation const& as = {}) {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      auto const over = list_[i].row().over;
      if (!which(list_[i]) || plan_.grid.size(over) == 1) continue;
      auto made = as;
      made.row = static_cast<int>(i);
      add(made, stream_of(over), reads, writes);
    }
  }
  void add_rows(exchange_place place, buffers const& touched, int microbatch = -1) {
    add_rows_that([&](exchange const& row) { return row.place == place; }, touched, touched,
                  {.microbatch = microbatch});
  }
  void add_message(exchange_place place, bool sends, int microbatch, buffers const& touched) {
    add_rows_that(
        [&](exchange const& row) { return row.place == place && row.is_sent_by(stage_) == sends; },
        sends ? touched : buffers{}, sends ? buffers{} : touched, {.microbatch = microbatch});
  }

  void write_sum(exchange_place place, buffers const& numbers) {
    compute(operation_kind::send, {}, numbers);
    add_rows(place, numbers);
    compute(operation_kind::read, numbers, {});
  }

  /// The timetable of the stage; behind each forward what has the model's output.
  template <class Then>
  void add_passes(stage_program const& passes, Then then) {
    auto const& slots = passes.slots;
    buffers const parameters = all_of(name::parameters), gradients = all_of(name::gradients);
    for (auto const& now : passes.operations) {
      int const m = now.microbatch;
      auto const slot = [m](name what, int count) {
        return count == 0 ? buffers{} : buffers{{what, m % count}};
      };
      auto const record = slot(name::record, slots.activations);
      auto const input = slot(name::edge_input, is_first() ? 0 : slots.inputs);
      auto const gradient = slot(name::edge_gradient, is_last() ? 0 : slots.gradients);
      auto const made = is_first() ? buffers{} : buffers{{name::made_gradient}};
      program_operation run{.chunk = 0, .units = units_, .microbatch = m};
      switch (now.kind) {
        case work::forward:
          run.what = operation_kind::forward;
          add(run, stream::compute, joined(joined(parameters, input), {{name::scale}}),
              joined(record, {{name::loss}}));
          then(m, record);
          break;
        case work::backward:  // its slots are given back: written as far as others are concerned
          run.what = operation_kind::backward;
          add(run, stream::compute, joined(parameters, {{name::scale}}),
              joined(joined(record, input), joined(joined(gradient, made), gradients)));
          break;
        case work::send_activation:
          add_message(exchange_place::activation_edge, true, m, record);
          break;
        case work::receive_activation:
          add_message(exchange_place::activation_edge, false, m, input);
          break;
        case work::send_gradient: add_message(exchange_place::gradient_edge, true, m, made); break;
        case work::receive_gradient:
          add_message(exchange_place::gradient_edge, false, m, gradient);
          break;
      }
    }
  }

  void begin_step() {
    compute(operation_kind::send, {}, {{name::labels}, {name::loss}});
    add_rows(exchange_place::labels, {{name::labels}});
    compute(operation_kind::scale, {{name::labels}}, {{name::scale}});
  }
  void sum_loss(program_shape const& shape) {
    add_rows(exchange_place::loss, {{name::loss}});
    if (shape.has_slices) compute(operation_kind::total, {{name::loss}}, {{name::loss}});
  }

  void write_training(stage_program const& passes, program_shape const& shape) {
    begin_step();
    add_passes(passes, [](auto const&...) {});
    auto const gradients = all_of(name::gradients), parameters = all_of(name::parameters);
    add_rows(exchange_place::slices, gradients);
    add_rows(exchange_place::ties, gradients);
    compute(operation_kind::add, gradients, gradients);
    add_rows(exchange_place::gradients, gradients);
    sum_loss(shape);
    if (shape.clips) {
      compute(operation_kind::square, gradients, {{name::squares}});
      add_rows(exchange_place::squares, {{name::squares}});
    }
    if (shape.updates) {
      auto reads = joined(gradients, {{name::squares}});
      if (shape.checks_loss) reads.push_back({name::loss});
      compute(operation_kind::update, reads, parameters);
      add_rows(exchange_place::refresh, parameters);
    }
    compute(operation_kind::read, {{name::labels}, {name::loss}}, {});
  }

  /// The output of a microbatch is brought together, and read by `what`.
  void add_output(operation_kind what, int microbatch, buffers const& record) {
    if (!is_last()) return;
    program_operation const of{.microbatch = microbatch};
    add_rows_that([](exchange const& row) { return row.place == exchange_place::output; }, record,
                  {{name::outputs, microbatch}}, of);
    auto made = of;
    made.what = what;
    add(made, stream::compute, joined(record, {{name::outputs, microbatch}}), {});
  }

  void write_evaluation(stage_program const& passes, program_shape const& shape) {
    bool measures = false;
    for (auto const& row : list_) measures = measures || row.place == exchange_place::measures;
    begin_step();
    add_passes(passes, [&](int microbatch, buffers const& record) {
      if (measures) add_output(operation_kind::measure, microbatch, record);
    });
    sum_loss(shape);
    compute(operation_kind::read, {{name::labels}, {name::loss}}, {});
    if (measures) write_sum(exchange_place::measures, {{name::measures}});
  }

  void write_prediction(stage_program const& passes) {
    buffers all;
    add_passes(passes, [&](int microbatch, buffers const& record) {
      all.push_back({name::outputs, microbatch});
      if (is_last())
        add_rows_that([](exchange const& row) { return row.place == exchange_place::output; },
                      record, {all.back()}, {.microbatch = microbatch});
    });
    add_rows(exchange_place::rank_outputs, all);
    add_rows(exchange_place::outputs, all);
    compute(operation_kind::read, all, {});
  }

  /// The blocks of the arena; then as the layers stand: stage by stage, copy by copy.
  void write_export() {
    add_rows(exchange_place::blocks, all_of(name::gradients));
    int first = 0;
    for (int item = 0; item < plan_.items.size(); first += plan_.items[item++].count)
      for (int copy = 0; copy < plan_.items[item].count; ++copy)
        for (int e = 0; e < plan_.entries.size(); ++e)
          add_rows_that(
              [&](exchange const& row) {
                auto const here =
                    copies_in(plan_.items.first, item, plan_.stage_units[row.from.stage()]);
                return row.place == exchange_place::parameter && row.entry == e &&
                       row.item == item && copy >= here.first_copy &&
                       copy < here.first_copy + here.copies;
              },
              {}, {{name::tensor, first + copy}}, {.units = {first + copy, first + copy + 1}});
  }

  listed_plan const& plan_;
  std::vector<exchange> const& list_;
  int stage_;
  unit_range units_;
  std::map<program_buffer, int> numbers_{};
  step_program out_{};
};

/// The program of the ranks of a stage in a part of a job.
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
  writer.write(part, passes, shape);
  return writer.take();
}

}  // namespace plait::planning
