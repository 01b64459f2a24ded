// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
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
enum class program_buffer : int {
  labels,
  scale,
  loss,
  norm_partials,
  numbers,           ///< that ranks compare, or of measures
  parameters,        ///< of a unit
  gradients,         ///< of a unit's parameters
  activation_stash,  ///< a slot of a chunk: what its layers have made of a microbatch
  gradient_stash,    ///< a slot: what backward_input leaves to backward_parameters
  edge_input,        ///< a slot: what the chunk before has sent
  edge_gradient,     ///< a slot: what the chunk behind has sent
  made_gradient,     ///< of a unit's input: units of a backward use two places in turn
  outputs,           ///< of a microbatch, brought together
  state,             ///< arenas of a trainer
  tensor             ///< the room of an export
};

/// The number of enumerators of `program_buffer`.
inline constexpr int program_buffers = 15;

/// All that a rank does in one part of a job, in the order in which it is handed to its streams:
/// what is handed to stream compute before comes before the first operation, and behind the last
/// one the host waits for all streams before it begins another program.
struct step_program {
  std::vector<program_operation> operations{};
  std::vector<stream_operation> touched{};  ///< of each
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
  using name = program_buffer;
  using buffers = std::vector<int>;

 public:
  /// `list`: of the stage and the part of the job; rows have their numbers in it.
  [[gnu::cold]] program_writer(listed_plan const& plan, std::vector<exchange> const& list,
                               int stage, stage_program const* passes = nullptr)
      : plan_(plan), list_(list), stage_(stage), passes_(passes) {
    span_ = plan.unit_count() + 1;
    if (passes == nullptr) return;
    for (auto const& now : passes->operations) span_ = std::max(span_, now.microbatch + 1);
  }

  [[nodiscard]] step_program take() { return std::move(out_); }

  /// The rows of one place; they move what `touched` names.
  [[gnu::cold]] void write_rows(exchange_place place, name touched) {
    buffers const all{at(touched)};
    compute(operation_kind::send, {}, all);
    add_rows(place, all);
    compute(operation_kind::read, all, {});
  }

  /// Adds up gradients that are there.
  [[gnu::cold]] void write_reduction() {
    auto const gradients = units(name::gradients);
    compute(operation_kind::send, {}, gradients);
    reduce_gradients();
    compute(operation_kind::read, gradients, {});
  }

  [[gnu::cold]] void write_training(program_shape const& shape) {
    auto const gradients = units(name::gradients), parameters = units(name::parameters);
    begin_step();
    if (plan_.slices > 0) compute(operation_kind::clear, {}, gradients);
    add_passes(outputs_are::ignored);
    if (shape.masks_loss) compute(operation_kind::mask, {}, {at(name::loss)});
    reduce_gradients();
    sum_loss();
    if (shape.clips) {
      compute(operation_kind::square, gradients, {at(name::norm_partials)});
      add_rows(exchange_place::norm_partials, {at(name::norm_partials)});
    }
    if (shape.updates) {
      auto reads = joined(gradients, {at(name::norm_partials)});
      if (shape.checks_loss) reads.push_back(at(name::loss));
      compute(operation_kind::update, reads, parameters);
      add_rows(exchange_place::gather_parameters, parameters);
    }
    compute(operation_kind::read, {at(name::labels), at(name::loss)}, {});
  }

  [[gnu::cold]] void write_evaluation(program_shape const& shape) {
    bool const measures = std::ranges::any_of(
        list_, [](exchange const& row) { return row.place == exchange_place::measures; });
    if (shape.counts) begin_step();
    add_passes(measures ? outputs_are::measured : outputs_are::ignored);
    if (shape.counts) sum_loss();
    compute(operation_kind::read, {at(name::labels), at(name::loss)}, {});
  }

  [[gnu::cold]] void write_prediction() {
    add_passes(outputs_are::kept);
    buffers all;  // also where none of them is made
    for (auto const& now : passes_->operations)
      if (now.kind == work::forward) all.push_back(at(name::outputs, now.microbatch));
    add_rows(exchange_place::rank_outputs, all);
    add_rows(exchange_place::outputs, all);
    compute(operation_kind::read, all, {});
  }

  /// The blocks of the arena; then one tensor behind the other, in the order of the layers.
  [[gnu::cold]] void write_export(bool gradients) {
    compute(operation_kind::send, {}, {at(name::state)});
    out_.touched.back().host_waits = true;  // for what was handed to stream compute before
    add_rows(exchange_place::blocks, {at(name::state)});
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
  /// What becomes of the model's output of a microbatch.
  enum class outputs_are : int { ignored, measured, kept };

  /// The number of a buffer: of a unit, a slot or a microbatch, and of a chunk of the stage.
  [[nodiscard]] int at(name what, int number = 0, int chunk = 0) const {
    return (chunk * program_buffers + static_cast<int>(what)) * span_ + number;
  }
  [[gnu::cold]] void append(buffers& out, name what, unit_range const& range) const {
    for (int unit = range.begin; unit < range.end; ++unit) out.push_back(at(what, unit));
  }
  [[nodiscard]] [[gnu::cold]] buffers units(name what) const {
    buffers out;
    for (auto const& chunk : plan_.chunks_of(stage_)) append(out, what, chunk);
    return out;
  }
  [[gnu::cold]] static buffers joined(buffers some, buffers const& others) {
    some.insert(some.end(), others.begin(), others.end());
    return some;
  }

  [[gnu::cold]] void add(program_operation const& made, stream on, buffers const& reads,
                         buffers const& writes) {
    out_.operations.push_back(made);
    out_.touched.push_back({on, reads, writes});
  }
  [[gnu::cold]] void compute(operation_kind what, buffers const& reads, buffers const& writes) {
    add({.what = what}, stream::compute, reads, writes);
  }

  /// Row `number`, as `made` says, if it is in a group of more than one rank; whether it is.
  [[gnu::cold]] bool add_row(std::size_t number, program_operation made, buffers const& reads,
                             buffers const& writes) {
    auto const over = list_[number].row().over;
    if (plan_.grid.size(over) == 1) return false;
    made.row = static_cast<int>(number);
    add(made, stream_of(over), reads, writes);
    return true;
  }
  [[gnu::cold]] void add_rows(exchange_place place, buffers const& touched) {
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (list_[i].place == place) add_row(i, {}, touched, touched);
  }
  /// This rank's end of the message between two chunks; `unit` is the first of the later one.
  [[gnu::cold]] void add_message(exchange_place place, int unit, bool sends,
                                 scheduled_work const& now, buffers const& touched) {
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (list_[i].place == place && list_[i].unit == unit && list_[i].is_sent_by(stage_) == sends)
        add_row(i, {.chunk = now.chunk, .microbatch = now.microbatch}, sends ? touched : buffers{},
                sends ? buffers{} : touched);
  }

  [[gnu::cold]] void begin_step() {
    compute(operation_kind::send, {}, {at(name::labels), at(name::loss)});
    add_rows(exchange_place::labels, {at(name::labels)});
    compute(operation_kind::scale, {at(name::labels)}, {at(name::scale)});
  }

  /// The timetable of the stage.
  [[gnu::cold]] void add_passes(outputs_are what) {
    std::vector<bool> has_begun(std::size_t(plan_.chunks), false);
    for (auto const& now : passes_->operations) add_work(now, what, has_begun);
  }
  [[gnu::cold]] void add_work(scheduled_work const& now, outputs_are what,
                              std::vector<bool>& has_begun) {
    auto const& chunk = plan_.chunks_of(stage_)[now.chunk];
    bool const ends_model = chunk.end == plan_.unit_count();
    int const m = now.microbatch, units_here = chunk.end - chunk.begin;
    auto const slot = [&](name of, int count) {
      return count == 0 ? buffers{} : buffers{at(of, m % count, now.chunk)};
    };
    auto const& slots = passes_->slots;
    auto const stash = slot(name::activation_stash, slots.activations);
    auto const input = slot(name::edge_input, chunk.begin == 0 ? 0 : slots.inputs);
    auto const gradient = slot(name::edge_gradient, ends_model ? 0 : slots.gradients);
    int const made = at(name::made_gradient, (units_here - 1) % 2);
    program_operation run{.chunk = now.chunk, .units = chunk, .microbatch = m};
    buffers reads{at(name::scale)}, writes;
    append(reads, name::parameters, chunk);
    bool const is_half = now.kind == work::backward_input || now.kind == work::backward_parameters;
    if (is_half) writes = slot(name::gradient_stash, slots.activations);
    // What is given back by who reads it last is written as far as others are concerned.
    bool const gives_back = now.kind == work::backward || now.kind == work::backward_parameters;
    if (gives_back) {
      append(writes, name::gradients, chunk);
      run.begins = plan_.slices == 0 && !has_begun[std::size_t(now.chunk)];  // else cleared
      has_begun[std::size_t(now.chunk)] = true;
    }
    for (auto const* const some : {&stash, &input}) {
      auto& to = gives_back ? writes : reads;
      if (now.kind != work::forward || some == &input) to = joined(to, *some);
    }
    if (now.kind == work::backward || now.kind == work::backward_input) {
      writes = joined(writes, gradient);
      for (int i = 0; i < std::min(units_here, 2); ++i)
        writes.push_back(at(name::made_gradient, i));
    }
    switch (now.kind) {
      case work::forward:
        run.what = operation_kind::forward;
        add(run, stream::compute, reads, joined(stash, {at(name::loss)}));
        if (ends_model && what != outputs_are::ignored)
          gather_output(joined(stash, input), m, what == outputs_are::measured);
        return;
      case work::backward: run.what = operation_kind::backward; break;
      case work::backward_input: run.what = operation_kind::backward_input; break;
      case work::backward_parameters: run.what = operation_kind::backward_parameters; break;
      case work::send_activation:
        return add_message(exchange_place::activation_edge, chunk.end, true, now, stash);
      case work::receive_activation:
        return add_message(exchange_place::activation_edge, chunk.begin, false, now, input);
      case work::send_gradient:
        return add_message(exchange_place::gradient_edge, chunk.begin, true, now, {made});
      case work::receive_gradient:
        return add_message(exchange_place::gradient_edge, chunk.end, false, now, gradient);
    }
    add(run, stream::compute, reads, writes);
  }

  [[gnu::cold]] void reduce_gradients() {
    auto const gradients = units(name::gradients);
    add_rows(exchange_place::slices, gradients);
    add_rows(exchange_place::ties, gradients);
    compute(operation_kind::add, gradients, gradients);
    add_rows(exchange_place::gradients, gradients);
  }
  [[gnu::cold]] void sum_loss() {
    add_rows(exchange_place::loss, {at(name::loss)});
    if (plan_.slices > 0) compute(operation_kind::total, {at(name::loss)}, {at(name::loss)});
  }

  /// The output of a microbatch, whole: by its row, or where all of it is here; and, for measures,
  /// to the host.
  [[gnu::cold]] void gather_output(buffers const& made, int microbatch, bool measured) {
    buffers const to{at(name::outputs, measured ? 0 : microbatch)};
    program_operation of{.microbatch = microbatch};
    bool is_moved = false;
    for (std::size_t i = 0; i < list_.size(); ++i)
      if (list_[i].place == exchange_place::output) is_moved = add_row(i, of, made, to) || is_moved;
    of.what = operation_kind::take;
    if (!is_moved) add(of, stream::compute, made, to);
    if (!measured) return;
    of.what = operation_kind::measure;
    add(of, stream::compute, to, {});
    out_.touched.back().host_waits = true;
  }

  /// A tensor of stage `owner` to the root.
  [[gnu::cold]] void add_tensor(program_operation of, int owner) {
    buffers const state{at(name::state)}, tensor{at(name::tensor)};
    auto const add_rows_of = [&](bool message, buffers const& reads) {
      bool any = false;
      for (std::size_t i = 0; i < list_.size(); ++i) {
        auto const& row = list_[i];
        if (row.place == exchange_place::parameter && row.entry == of.entry &&
            row.from.stage() == owner && (row.row().moves == collective::send) == message)
          any = add_row(i, of, reads, tensor) || any;
      }
      return any;
    };
    if (stage_ == owner && !add_rows_of(false, state)) {
      auto taken = of;
      taken.what = operation_kind::take;
      add(taken, stream::compute, state, tensor);
    }
    add_rows_of(true, tensor);
    if (stage_ != 0) return;
    of.what = operation_kind::read;
    add(of, stream::compute, tensor, {});
    out_.touched.back().host_waits = true;
  }

  listed_plan const& plan_;
  std::vector<exchange> const& list_;
  int stage_;
  stage_program const* passes_;  // of the stage, where the part has some
  int span_ = 1;                 // of the numbers of units, slots and microbatches
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
  program_writer writer(plan, list, stage, &passes);
  switch (part) {
    case job_part::set_up:
      writer.write_rows(exchange_place::agreement, program_buffer::numbers);
      break;
    case job_part::training: writer.write_training(shape); break;
    case job_part::evaluation: writer.write_evaluation(shape); break;
    case job_part::prediction: writer.write_prediction(); break;
    case job_part::export_parameters: writer.write_export(false); break;
    case job_part::export_gradients: writer.write_export(true); break;
    case job_part::state_transfer: writer.write_rows(exchange_place::state, program_buffer::state);
  }
  return writer.take();
}

/// The same of a plan, whose mesh is `grid` with all its sizes.
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of(mesh const& grid,
                                                    std::vector<exchange> const& list, int stage,
                                                    job_part part, stage_program const& passes = {},
                                                    program_shape const& shape = {}) {
  return make_step_program(numbers_of<Plan>(grid), list, stage, part, passes, shape);
}

/// The program that adds up gradients that are there, by the list of a step.
template <class Plan>
[[nodiscard]] [[gnu::cold]] step_program program_of_reduction(mesh const& grid,
                                                              std::vector<exchange> const& list,
                                                              int stage) {
  auto const numbers = numbers_of<Plan>(grid);
  program_writer writer(numbers, list, stage);
  writer.write_reduction();
  return writer.take();
}

/// The program that carries out the rows of one place of a list and nothing else; they move what
/// `touched` names.
[[nodiscard]] [[gnu::cold]] inline step_program program_of_rows(mesh const& grid,
                                                                std::vector<exchange> const& list,
                                                                exchange_place place,
                                                                program_buffer touched) {
  listed_plan numbers{};
  numbers.grid = grid;
  program_writer writer(numbers, list, 0);
  writer.write_rows(place, touched);
  return writer.take();
}

}  // namespace plait::planning
